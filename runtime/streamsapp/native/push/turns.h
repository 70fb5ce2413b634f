/* The inputs of a task that wait for their turn, by the times of their heads. Among equals the order is that of Kafka
 * Streams' heap, as in streamsapp.tasks.priority_queue. Used for each record of a task with several inputs, by the
 * thread that processes it; with the interpreter's lock. */
#ifndef SA_PUSH_TURNS_H
#define SA_PUSH_TURNS_H

#include "push/input.h"

typedef struct {
    Input **heap; /* NULL at first */
    Py_ssize_t count, room;
} Turns;

/* Keeps an input until it is its turn; 0, or -1 with an exception. */
int sa_offer(Turns *turns, Input *input);

/* Takes out the input whose turn it is: a new reference. There is one. */
Input *sa_poll(Turns *turns);

/* Lets go of all. */
void sa_clear_turns(Turns *turns);

#endif
