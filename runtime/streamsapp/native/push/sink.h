/* Sinks: they serialise records and emit them for a topic. Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_SINK_H
#define SA_PUSH_SINK_H

#include "push/push.h"

extern PushType sa_sink_type;

#endif
