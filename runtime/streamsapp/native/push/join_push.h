/* The push function of a stream's join with a table. Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_JOIN_PUSH_H
#define SA_PUSH_JOIN_PUSH_H

#include "push/push.h"

extern PushType sa_join_push_type;

#endif
