#pragma once

#include <cstdint>

namespace reprise {

/// CPU kernels of attention divide every context at multiples of this many positions. They compute
/// the softmax of each segment by itself and then add up the segments from the first to the last.
/// The bits of a row depend on this constant. They do not depend on which workers compute the
/// segments, so several workers can share one long context. A segment this long costs far more time
/// than the addition of its sums. It must be a multiple of 32.
inline constexpr int64_t kAttentionSegment = 2048;

}  // namespace reprise
