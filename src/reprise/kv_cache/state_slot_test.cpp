#include "reprise/kv_cache/state_slot_pool.h"
