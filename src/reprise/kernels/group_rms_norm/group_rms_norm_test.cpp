#include "reprise/kernels/group_rms_norm/group_rms_norm.h"
