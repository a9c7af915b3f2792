// Loops whose counter is a constant, for template arguments.

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};

// Calls f(Number<kBegin>), ..., f(Number<kEnd - 1>): f can use the numbers as template arguments.
template <int kBegin, int kEnd, typename F>
REPRISE_INLINE void for_numbers(const F& f) {
  if constexpr (kBegin < kEnd) {
    f(Number<kBegin>{});
    for_numbers<kBegin + 1, kEnd>(f);
  }
}
