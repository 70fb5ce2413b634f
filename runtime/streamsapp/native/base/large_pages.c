#include "base/large_pages.h"

#include <Python.h>
#include <dlfcn.h>
#include <stdint.h>
#include <sys/mman.h>

enum { LARGE_PAGE = 2 << 20 };

void sa_wish_large_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
    uintptr_t begin = ((uintptr_t)memory + LARGE_PAGE - 1) & ~(uintptr_t)(LARGE_PAGE - 1);
    uintptr_t end = ((uintptr_t)memory + size) & ~(uintptr_t)(LARGE_PAGE - 1);
    if (end > begin) madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* or it does without */
#endif
}

/* The objects of Python's lie in arenas of half a large page. Two of them are had of the system as one. */

enum { ARENA = LARGE_PAGE / 2 };

static PyObjectArenaAllocator small_arenas;

static void *other_arena; /* the half of a large page that is not used yet */

/* A large page's room that begins where such a page can; NULL if there is no memory. */
static char *large_page(void) {
    char *memory = mmap(NULL, 2 * LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return NULL;
    size_t before = -(uintptr_t)memory & (LARGE_PAGE - 1);
    if (before) munmap(memory, before);
    munmap(memory + before + LARGE_PAGE, LARGE_PAGE - before);
    sa_wish_large_pages(memory + before, LARGE_PAGE);
    return memory + before;
}

static void *new_arena(void *none, size_t size) {
    if (size != ARENA) return small_arenas.alloc(small_arenas.ctx, size);
    void *other = __atomic_exchange_n(&other_arena, NULL, __ATOMIC_ACQ_REL);
    if (other) return other;
    char *memory = large_page();
    if (!memory) return NULL;
    other = __atomic_exchange_n(&other_arena, memory + ARENA, __ATOMIC_ACQ_REL);
    if (other) munmap(other, ARENA); /* another interpreter's, at the same moment */
    return memory;
}

/* Each arena is given back to the system by itself, like the arenas that the interpreter made before. */
static void free_arena(void *none, void *memory, size_t size) { munmap(memory, size); }

PyObject *sa_take_large_arenas(PyObject *module, PyObject *none) {
    PyObjectArenaAllocator used, large = {NULL, new_arena, free_arena};
    Dl_info its, python;
    PyObject_GetArenaAllocator(&used);
    if (dladdr((void *)used.alloc, &its) && dladdr((void *)PyObject_GetArenaAllocator, &python) &&
        its.dli_fbase == python.dli_fbase) {
        small_arenas = used;
        PyObject_SetArenaAllocator(&large);
    }
    Py_RETURN_NONE;
}
