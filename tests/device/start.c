/* What happens on an emulated board before main. */
#include <stdint.h>
#include <stdlib.h>

extern uint32_t __stack[];
extern void initialise_monitor_handles(void);
extern int main(void);

void start(void)
{
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* numbers with a point, in hardware */
    __asm__ volatile("dsb\n isb");
    initialise_monitor_handles();
    exit(main());
}

static void stop(void) { for (;;) { } }

typedef struct {
    uint32_t *stack;
    void (*start)(void), (*stop[14])(void);
} vectors;

__attribute__((section(".vectors"), used)) static const vectors table = {
    __stack, start, {stop, stop, stop, stop, stop},
};

void _init(void) { }
void _fini(void) { }
