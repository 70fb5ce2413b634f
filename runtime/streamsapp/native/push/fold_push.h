/* The push function that folds the values of a key into an aggregate: of reduce and aggregate without windows. Called
 * by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_FOLD_PUSH_H
#define SA_PUSH_FOLD_PUSH_H

#include "push/push.h"

extern PushType sa_fold_push_type;

#endif
