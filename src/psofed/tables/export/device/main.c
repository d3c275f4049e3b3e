/* A program to start from: what the board has to do stands in the four functions at the top.

       cc -std=c99 -Os -ffp-contract=off main.c */
#include "config.h"
#include "psofed.h"

/* A sample: x and y, scaled. For a table config.h has psofed_inputs and psofed_label, which scale raw
   values, and psofed_answer, which gives an answer in units. 0: there is none now. */
static int board_sample(float *x, float *y) { (void)x, (void)y; return 0; }

/* A frame from the radio, at most PSOFED_FRAME bytes. 0: there is none now. */
static size_t board_hear(uint8_t *frame) { (void)frame; return 0; }

static void board_say(const uint8_t *frame, size_t length) { (void)frame, (void)length; }

/* Two slots of PSOFED_SLOT bytes that survive without power. */
static int board_read(unsigned slot, uint32_t at, void *to, uint32_t count)
{
    (void)slot, (void)at, (void)to, (void)count;
    return -1;
}
static int board_erase(unsigned slot) { (void)slot; return -1; }
static int board_write(unsigned slot, uint32_t at, const void *from, uint32_t count)
{
    (void)slot, (void)at, (void)from, (void)count;
    return -1;
}

static const psofed_flash flash = {board_read, board_erase, board_write};
static psofed_client me;

/* The answer to a window, which is saved before it leaves; asked once more, it is the same. */
static void answer(void)
{
    uint8_t frame[PSOFED_FRAME];
    size_t length = psofed_upload(&me, 0, frame);
    psofed_save(&me, &flash);
    for (uint32_t part = 1; length; length = psofed_upload(&me, part++, frame))
        board_say(frame, length);
}

int main(void)
{
    uint8_t frame[PSOFED_FRAME];
    float x[PSOFED_INPUTS], y;
    psofed_load(&me, &flash);
    board_say(frame, psofed_hello(&me, frame));
    for (;;) {
        size_t length = board_hear(frame);
        int came = length ? psofed_receive(&me, frame, length) : PSOFED_MORE;
        int asked = me.open && !me.answered; /* Online-Fed learns only then */
        if ((PSOFED_IDLE || asked) && board_sample(x, &y)) psofed_learn(&me, x, y);
        if (came == PSOFED_AGAIN || psofed_due(&me)) answer();
    }
}
