#include "push/turns.h"

static int make_room(Turns *turns) {
    if (turns->count < turns->room) return 0;
    Py_ssize_t room = 2 * turns->room + 2;
    Input **larger = PyMem_Realloc(turns->heap, (size_t)room * sizeof(*larger));
    if (!larger) {
        PyErr_NoMemory();
        return -1;
    }
    turns->heap = larger;
    turns->room = room;
    return 0;
}

/* It rises past parents that are later. */
int sa_offer(Turns *turns, Input *input) {
    if (make_room(turns)) return -1;
    Py_ssize_t at = turns->count++;
    for (; at; at = (at - 1) / 2) {
        Input *parent = turns->heap[(at - 1) / 2];
        if (input->time >= parent->time) break;
        turns->heap[at] = parent;
    }
    turns->heap[at] = (Input *)Py_NewRef(input);
    return 0;
}

/* The last one sinks from the top. */
Input *sa_poll(Turns *turns) {
    Input **heap = turns->heap, *first = heap[0], *last = heap[--turns->count];
    Py_ssize_t at = 0, size = turns->count;
    while (at < size / 2) {
        Py_ssize_t child = 2 * at + 1;
        if (child + 1 < size && heap[child]->time > heap[child + 1]->time) child++;
        if (last->time <= heap[child]->time) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return first;
}

void sa_clear_turns(Turns *turns) {
    Turns gone = *turns;
    *turns = (Turns){NULL, 0, 0};
    while (gone.count) {
        Input *input = gone.heap[--gone.count];
        input->is_offered = 0;
        Py_DECREF(input);
    }
    PyMem_Free(gone.heap);
}
