/* Large pages for memory that is read here and there: a processor remembers where some thousand pages are, and has to
 * look up the others, in a virtual machine twice. Called by tables and logs of cells when they grow, with the
 * interpreter's lock. */
#ifndef SA_BASE_LARGE_PAGES_H
#define SA_BASE_LARGE_PAGES_H

#include <stddef.h>

/* Has the system back memory that was not written yet by large pages, as far as it can and may. */
void sa_wish_large_pages(void *memory, size_t size);

/* Has new objects lie in large pages, unless somebody else has taken over from the interpreter. */
void sa_take_large_arenas(void);

#endif
