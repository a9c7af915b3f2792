#include "reprise/kernels/gates/gates.h"
