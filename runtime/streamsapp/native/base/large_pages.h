/* Large pages for memory that is read here and there: a processor remembers where some thousand pages are, and has to
 * look up the others; in a virtual machine, twice. Called by tables and logs of cells when they grow, with the
 * interpreter's lock. */
#ifndef SA_BASE_LARGE_PAGES_H
#define SA_BASE_LARGE_PAGES_H

#include <Python.h>
#include <stddef.h>

/* Has the system back memory that was not written yet by large pages, as far as it can and may. */
void sa_wish_large_pages(void *memory, size_t size);

/* take_large_arenas(): has new objects of the whole process lie in large pages, unless another library's allocator is
 * there already. For the program that is the process, as all that runs in it gets its arenas here. Again is nothing. */
PyObject *sa_take_large_arenas(PyObject *module, PyObject *none);

#endif
