#include "reprise/kernels/causal_conv1d/causal_conv1d.h"
