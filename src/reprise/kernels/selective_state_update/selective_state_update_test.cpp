#include "reprise/kernels/selective_state_update/selective_state_update.h"
