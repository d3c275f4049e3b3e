/* A device in the field, on an emulated board: sample n belongs to round n, frames get lost in both
   directions, and so does power. What it is asked on its serial line it answers there. */
#include "config.h"
#include "psofed.h"
#include "samples.h" /* samples, SEED, and the odds LOST and CUT, in 256ths */
#include <string.h>

#define UART ((volatile uint32_t *)0x40004000)
#define PENDING (*(volatile uint32_t *)0xE000E280)

static psofed_client me;
static psofed_line line;
static uint8_t slots[2][PSOFED_SLOT];
static uint32_t luck = SEED;

static int odds(uint32_t in_256)
{
    luck ^= luck << 13, luck ^= luck >> 17, luck ^= luck << 5;
    return (luck >> 8) % 256 < in_256;
}

static int look(unsigned slot, uint32_t at, void *to, uint32_t count)
{
    memcpy(to, slots[slot] + at, count);
    return 0;
}
static int wipe(unsigned slot) { memset(slots[slot], 0xff, PSOFED_SLOT); return 0; }
static int put(unsigned slot, uint32_t at, const void *from, uint32_t count)
{
    int cut = odds(CUT);
    memcpy(slots[slot] + at, from, cut ? count / 2 : count);
    return -cut;
}
static const psofed_flash flash = {look, wipe, put};

/* A byte from the line; until one comes, the processor sleeps. */
static uint8_t hear(void)
{
    while (!(UART[1] & 2)) {
        __asm__ volatile("wfi");
        UART[3] = 2, PENDING = 1;
    }
    return (uint8_t)UART[0];
}

static void say(const uint8_t *frame, size_t length)
{
    uint8_t bytes[PSOFED_PACKED];
    size_t count = psofed_pack(frame, length, bytes);
    for (size_t i = 0; i < count; i++) {
        while (UART[1] & 1) { }
        UART[0] = bytes[i];
    }
}

static void begin(void)
{
    uint8_t frame[PSOFED_FRAME];
    memset(&me, 0xa5, sizeof me);
    memset(&line, 0, sizeof line);
    psofed_load(&me, &flash);
    say(frame, psofed_hello(&me, frame));
}

static void answer(void)
{
    uint8_t frame[PSOFED_FRAME];
    size_t length = psofed_upload(&me, 0, frame);
    if (psofed_save(&me, &flash) || odds(CUT)) {
        begin();
        return;
    }
    for (uint32_t part = 1; length; length = psofed_upload(&me, part++, frame))
        if (!odds(LOST)) say(frame, length);
}

static void show(void)
{
    uint8_t frame[PSOFED_FRAME];
    for (uint32_t d = 0; d < PSOFED_DIM; d++) {
        memcpy(frame, &me.w[d], 4);
        say(frame, 4);
    }
}

static uint32_t position(void)
{
    uint32_t count = 0;
    for (int i = 0; i < PSOFED_VERDICTS; i++) count += me.counts[i];
    return count;
}

static void learn(void)
{
    const float *sample = samples[position()];
    psofed_learn(&me, sample, sample[PSOFED_INPUTS]);
}

int main(void)
{
    __asm__ volatile("cpsid i");
    *(volatile uint32_t *)0xE000E100 = 1; /* it wakes up for a byte */
    UART[4] = 16, UART[2] = 11;
    begin();
    for (;;) {
        size_t length = psofed_byte(&line, hear());
        uint32_t n;
        int came;
        if (length == 1) show();
        if (length <= PSOFED_HEAD || odds(LOST)) continue;
        if (odds(CUT)) {
            begin();
            continue;
        }
        n = line.bytes[1] | (uint32_t)line.bytes[2] << 8 | (uint32_t)line.bytes[3] << 16;
        while (PSOFED_IDLE && position() < n) learn();
        came = psofed_receive(&me, line.bytes, length);
        if (came == PSOFED_OPEN) learn();
        if (came == PSOFED_AGAIN || psofed_due(&me)) answer();
    }
}
