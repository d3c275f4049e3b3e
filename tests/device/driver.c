/* A device on a table: commands come in, what the client says goes out; numbers are hexadecimal. */
#include "config.h"
#include "psofed.h"
#include <stdio.h>
#include <string.h>

static psofed_client me;
static psofed_line line;
static unsigned char slots[2][PSOFED_SLOT];
static long power = -1; /* bytes until it is cut; negative: it is not */

static int look(unsigned slot, uint32_t at, void *to, uint32_t count)
{
    memcpy(to, slots[slot] + at, count);
    return 0;
}

static int put(unsigned slot, uint32_t at, const void *from, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (power == 0) return -1;
        power -= power > 0;
        slots[slot][at + i] = ((const unsigned char *)from)[i];
    }
    return 0;
}

static int wipe(unsigned slot)
{
    unsigned char blank[PSOFED_SLOT];
    memset(blank, 0xff, sizeof blank);
    return put(slot, 0, blank, sizeof blank);
}

static const psofed_flash flash = {look, wipe, put};

static float number(void)
{
    union { unsigned bits; float f; } a = {0};
    if (scanf("%x", &a.bits) != 1) a.bits = 0;
    return a.f;
}

static void show(float v)
{
    union { float f; unsigned bits; } a = {v};
    printf("%08x ", a.bits);
}

static void tell(const uint8_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) printf("%02x", from[i]);
    if (count) printf(" ");
}

static unsigned bytes(uint8_t *to)
{
    unsigned count = 0, one;
    if (scanf("%u", &count) != 1 || count > 256) return 0;
    for (unsigned i = 0; i < count && scanf("%2x", &one) == 1; i++) to[i] = (uint8_t)one;
    return count;
}

int main(void)
{
    char command;
    float x[PSOFED_INPUTS];
    uint8_t frame[256];
    psofed_begin(&me);
    while (scanf(" %c", &command) == 1) {
        if (command == 'l' || command == 'p') {
            for (int l = 0; l < PSOFED_INPUTS; l++) x[l] = number();
            if (command == 'p') show(psofed_predict(&me, x));
            else printf("%d ", psofed_learn(&me, x, number()));
        } else if (command == 'r') {
            unsigned count = bytes(frame);
            printf("%d ", psofed_receive(&me, frame, count));
        } else if (command == 'u') {
            size_t length;
            for (uint32_t part = 0; (length = psofed_upload(&me, part, frame)) > 0; part++)
                tell(frame, length);
        } else if (command == 'h') {
            tell(frame, psofed_hello(&me, frame));
        } else if (command == 'k') {
            uint8_t to[PSOFED_PACKED];
            size_t length = bytes(frame);
            tell(to, psofed_pack(frame, length, to));
        } else if (command == 'b') {
            unsigned count = bytes(frame);
            for (unsigned i = 0; i < count; i++) tell(line.bytes, psofed_byte(&line, frame[i]));
        } else if (command == 'w') {
            for (int d = 0; d < PSOFED_DIM; d++) show(me.w[d]);
        } else if (command == 's') {
            if (scanf("%ld", &power) != 1) return 1;
            printf("%d ", psofed_save(&me, &flash));
        } else if (command == 'o') {
            memset(&me, 0xa5, sizeof me);
            power = -1;
            printf("%u ", (unsigned)psofed_load(&me, &flash));
        } else {
            return 1;
        }
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
