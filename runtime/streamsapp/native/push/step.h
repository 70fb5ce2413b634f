/* Steps without state: what streamsapp.dsl.operators.stateless does for each record. Called by push.h, with the
 * interpreter's lock. */
#ifndef SA_PUSH_STEP_H
#define SA_PUSH_STEP_H

#include "push/push.h"

extern PushType sa_step_type;

#endif
