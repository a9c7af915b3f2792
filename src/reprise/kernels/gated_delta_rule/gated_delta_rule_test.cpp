#include "reprise/kernels/gated_delta_rule/gated_delta_rule.h"
