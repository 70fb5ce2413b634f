/* The push function of a count of windows, for stores whose entries are cells; and the stream time that all push
 * functions of an operator share. Called by push.h, with the interpreter's lock. */
#ifndef SA_PUSH_WINDOWS_H
#define SA_PUSH_WINDOWS_H

#include "base/fields.h"
#include "push/push.h"

extern MadeType sa_window_type;

extern PushType sa_window_push_type;

extern PyTypeObject sa_stream_time_type;

#endif
