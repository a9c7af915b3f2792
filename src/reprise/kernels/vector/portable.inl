// Four float lanes in GCC/Clang vector extensions: baseline x86-64, or any other platform.
// Interface of every vector/*.inl: Vec, kLanes, load/store of the three element types and loads of
// float8 (whole or the first n elements, n < kLanes), arithmetic, fixed-order reductions, and
// Dot<T> packets.

typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IntVec __attribute__((vector_size(16)));
typedef uint32_t BitsVec __attribute__((vector_size(16)));
constexpr int kLanes = 4;

REPRISE_INLINE Vec broadcast(float value) { return Vec{value, value, value, value}; }
REPRISE_INLINE Vec zero() { return broadcast(0.0F); }
REPRISE_INLINE Vec add(Vec a, Vec b) { return a + b; }
REPRISE_INLINE Vec sub(Vec a, Vec b) { return a - b; }
REPRISE_INLINE Vec mul(Vec a, Vec b) { return a * b; }
REPRISE_INLINE Vec div(Vec a, Vec b) { return a / b; }
// The baseline has no fused multiply-add, so there are always two roundings.
REPRISE_INLINE Vec fma(Vec a, Vec b, Vec c) { return a * b + c; }
// the result is NaN if b is NaN, as with the x86 instructions
REPRISE_INLINE Vec max(Vec a, Vec b) { return a > b ? a : b; }
REPRISE_INLINE Vec min(Vec a, Vec b) { return a < b ? a : b; }
REPRISE_INLINE Vec round_nearest(Vec x) {  // |x| < 2^22
  const Vec magic = broadcast(0x1.8p23F);
  return (x + magic) - magic;
}
REPRISE_INLINE Vec round_up(Vec x) {  // |x| < 2^22
  const Vec nearest = round_nearest(x);
  return nearest < x ? nearest + 1.0F : nearest;
}
/// x * 2^n for integral n in [-252, 254].
REPRISE_INLINE Vec scale_by_power_of_two(Vec x, Vec n) {
  const IntVec exponent = __builtin_convertvector(n, IntVec);
  const IntVec half = exponent >> 1;
  const Vec first = reinterpret_cast<Vec>((half + 127) << 23);
  const Vec second = reinterpret_cast<Vec>((exponent - half + 127) << 23);
  return x * first * second;
}

REPRISE_INLINE Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
template <typename T>
REPRISE_INLINE Vec load(const T* p) {
  return Vec{to_float(p[0]), to_float(p[1]), to_float(p[2]), to_float(p[3])};
}
template <typename T>
REPRISE_INLINE Vec load_first(const T* p, int n) {
  Vec v = zero();
  for (int i = 0; i < n; ++i) v[i] = to_float(p[i]);
  return v;
}
REPRISE_INLINE void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(v)); }
template <typename T>
REPRISE_INLINE void store(T* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) store_element(p + i, v[i]);
}
template <typename T>
REPRISE_INLINE void store_first(T* p, Vec v, int n) {
  for (int i = 0; i < n; ++i) store_element(p + i, v[i]);
}

/// Keeps v in lanes [begin, end), and takes `other` elsewhere.
REPRISE_INLINE Vec keep_lanes(Vec v, int begin, int end, float other) {
  const IntVec lane = {0, 1, 2, 3};
  return ((lane >= begin) & (lane < end)) ? v : broadcast(other);
}

/// Keeps v in the lanes where least <= x < most, and takes `other` elsewhere.
REPRISE_INLINE Vec keep_between(Vec v, Vec x, Vec least, Vec most, float other) {
  return ((x >= least) & (x < most)) ? v : broadcast(other);
}
/// Keeps v in the lanes where x is at least `least`, and 0 elsewhere.
REPRISE_INLINE Vec keep_at_least(Vec v, Vec x, Vec least) { return x >= least ? v : zero(); }

REPRISE_INLINE float sum(Vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
REPRISE_INLINE float maximum(Vec v) {
  const float a = v[0] > v[2] ? v[0] : v[2];
  const float b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}
/// Computes four sums, each in the order of sum().
REPRISE_INLINE void sum4(Vec a, Vec b, Vec c, Vec d, float* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}
/// Transposes the 4 words of each of 4 rows from `element` on: word i of row r becomes lane r of
/// lines[i].
template <typename T>
REPRISE_INLINE void load_transposed(const T* const* rows, int64_t element, Vec (&lines)[kLanes]) {
  const auto words = [&](int row) REPRISE_LAMBDA_INLINE {
    Vec four;
    __builtin_memcpy(&four, rows[row] + element, sizeof four);
    return four;
  };
  const Vec a = words(0);
  const Vec b = words(1);
  const Vec c = words(2);
  const Vec d = words(3);
  for (int i = 0; i < kLanes; ++i) lines[i] = Vec{a[i], b[i], c[i], d[i]};
}
/// Either the first or the second elements of pairs of bfloat16. Little-endian.
REPRISE_INLINE Vec first_of_pairs(Vec pairs) {
  return reinterpret_cast<Vec>(reinterpret_cast<BitsVec>(pairs) << 16);
}
REPRISE_INLINE Vec second_of_pairs(Vec pairs) {
  return reinterpret_cast<Vec>(reinterpret_cast<BitsVec>(pairs) & 0xffff0000U);
}
REPRISE_INLINE float square_root(float x) { return __builtin_sqrtf(x); }

/// Sums of products of type T: the elements of one load, and their product with those of another
/// load.
template <typename T>
struct Dot {
  using Packet = Vec;
  using Sum = Vec;
  using Result = float;
  static constexpr int kStep = kLanes;
  static REPRISE_INLINE Packet load_packet(const T* p) { return load(p); }
  static REPRISE_INLINE Packet load_packet_first(const T* p, int n) { return load_first(p, n); }
  static REPRISE_INLINE Vec accumulate(Packet a, Packet b, Vec sum) { return fma(a, b, sum); }
};
// Even and odd elements are separated, so that a shift and a mask widen bfloat16. Little-endian.
template <>
struct Dot<BFloat16> {
  struct Packet {
    Vec even;
    Vec odd;
  };
  using Sum = Vec;
  using Result = float;
  static constexpr int kStep = 2 * kLanes;
  static REPRISE_INLINE Packet split(BitsVec pairs) {
    return {reinterpret_cast<Vec>(pairs << 16), reinterpret_cast<Vec>(pairs & 0xffff0000U)};
  }
  static REPRISE_INLINE Packet load_packet(const BFloat16* p) {
    BitsVec pairs;
    __builtin_memcpy(&pairs, p, sizeof(pairs));
    return split(pairs);
  }
  static REPRISE_INLINE Packet broadcast_pair(const BFloat16* p) {
    uint32_t pair;
    __builtin_memcpy(&pair, p, sizeof(pair));
    return split(BitsVec{pair, pair, pair, pair});
  }
  static REPRISE_INLINE Packet load_packet_first(const BFloat16* p, int n) {
    BitsVec pairs = {0, 0, 0, 0};
    __builtin_memcpy(&pairs, p, static_cast<size_t>(n) * 2);
    return split(pairs);
  }
  static REPRISE_INLINE Vec accumulate(const Packet& a, const Packet& b, Vec sum) {
    return fma(a.odd, b.odd, fma(a.even, b.even, sum));
  }
};

// The product of two int8 fits into 16 bits. Neighbours are then added in int32.
typedef int16_t ShortVec __attribute__((vector_size(16)));
typedef int8_t ByteVec __attribute__((vector_size(8)));
template <>
struct Dot<int8_t> {
  using Packet = ShortVec;
  using Sum = IntVec;
  using Result = int32_t;
  static constexpr int kStep = 8;
  static REPRISE_INLINE Packet load_packet(const int8_t* p) { return load_packet_first(p, kStep); }
  static REPRISE_INLINE Packet load_packet_first(const int8_t* p, int n) {
    ByteVec bytes = {};
    __builtin_memcpy(&bytes, p, static_cast<size_t>(n));
    return __builtin_convertvector(bytes, ShortVec);
  }
  static REPRISE_INLINE Sum accumulate(Packet a, Packet b, Sum sum) {
    const IntVec pairs = reinterpret_cast<IntVec>(a * b);
    return sum + (pairs >> 16) + ((pairs << 16) >> 16);
  }
};
REPRISE_INLINE int32_t sum(IntVec v) { return (v[0] + v[1]) + (v[2] + v[3]); }
REPRISE_INLINE void sum4(IntVec a, IntVec b, IntVec c, IntVec d, int32_t* out) {
  out[0] = sum(a);
  out[1] = sum(b);
  out[2] = sum(c);
  out[3] = sum(d);
}

// Register tile of products with panels: rows x vectors. kPairsAreFloats: several rows are widened
// to float32 first.
constexpr bool kPairsAreFloats = false;
constexpr int kPairTileRows = 2;
constexpr int kPairTileVecs = 4;
// Register tile of dot products. It uses 16 registers of 4 lanes.
constexpr int kTileRows = 2;
constexpr int kTileColumns = 4;
constexpr int kSingleRowColumns = 4;
// Register tile of attention's scores, and of its weighted sums of values: rows x vectors.
constexpr int kAttentionTileRows = 4;
constexpr int kAttentionTileVecs = 2;
// Whether loading bfloat16 costs attention no more than loading float32, so that tiles of values
// read the cache itself.
constexpr bool kWidensWhileLoading = false;
