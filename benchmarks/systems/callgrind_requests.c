/* The requests of a program to the callgrind that runs it: to count instructions, and to write down how many.
 *
 * Compiled and called by counted_program.py, on its only thread. Without callgrind all of it does nothing.
 */
#include <valgrind/callgrind.h>

void begin_counting(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

void end_counting(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}
