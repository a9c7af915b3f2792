// Loads and stores of the last elements of a row, which may be fewer than the lanes of a Vec.

/// Loads the first `count` elements from p on, count <= kLanes; the other lanes are zeros.
template <typename T>
REPRISE_INLINE Vec load_some(const T* p, int count) {
  return count == kLanes ? load(p) : load_first(p, count);
}
template <typename T>
REPRISE_INLINE void store_some(T* p, Vec v, int count) {
  if (count == kLanes) {
    store(p, v);
  } else {
    store_first(p, v, count);
  }
}
/// The number of lanes that the vector at element i of a row uses.
REPRISE_INLINE int lanes_at(int64_t i, int64_t end) {
  return static_cast<int>(min_of(kLanes, end - i));
}
