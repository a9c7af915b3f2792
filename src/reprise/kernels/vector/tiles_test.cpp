// The software tiles against the instructions of AMX, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>

#include "reprise/device/cpu/cpu_features.h"

#define REPRISE_INLINE inline __attribute__((always_inline))

// The tests have a namespace of their own, because test sources are compiled in groups.
namespace reprise::kernels::tiles_test {
namespace {

#include "reprise/kernels/vector/tile_shapes.inl"

namespace software {
#include "reprise/kernels/vector/tiles_software.inl"
}  // namespace software

#if defined(__x86_64__)
namespace hardware {
#include "reprise/kernels/vector/tiles_amx.inl"
}  // namespace hardware
#endif

enum class Numbers { usual, subnormal, huge, special, any };
constexpr std::array kNumbers = {
    Numbers::usual, Numbers::subnormal, Numbers::huge, Numbers::special, Numbers::any};

using Tile = std::array<uint8_t, kTileHeight * kTileRowBytes>;

struct Product {
  TileShapes shapes;
  Tile sums;
  Tile rows;
  Tile columns;
};

// Random numbers that are the same with every standard library.
class Random {
 public:
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(engine_() % limit); }

  uint16_t bf16(Numbers numbers) {
    const uint16_t bits = static_cast<uint16_t>(engine_());
    const auto with_exponent = [bits](uint32_t exponent) {
      return static_cast<uint16_t>((bits & 0x807fU) | exponent << 7);
    };
    switch (numbers) {
      case Numbers::usual:
        return with_exponent(120 + below(14));
      case Numbers::subnormal:  // products and sums near 2^-126
        return with_exponent(below(3) == 0 ? below(4) : below(4) == 0 ? 127 : 56 + below(14));
      case Numbers::huge:
        return with_exponent(below(2) == 0 ? below(255) : 180 + below(20));
      case Numbers::special:
        if (below(16) == 0) return static_cast<uint16_t>((bits & 0x8000U) | 0x7f80U);
        return below(16) == 0 ? static_cast<uint16_t>(bits & 0x8000U)
                              : with_exponent(120 + below(14));
      case Numbers::any:
        break;
    }
    return bits;
  }

  Product product(Numbers numbers) {
    Product p = {};
    const int rows = 1 + static_cast<int>(below(kTileHeight));
    const int columns = 1 + static_cast<int>(below(kTileSumColumns));
    const int depth = 1 + static_cast<int>(below(kTileHeight));
    p.shapes.set(kSums00, rows, 4 * columns);
    p.shapes.set(kRows0, rows, 4 * depth);
    p.shapes.set(kColumns0, depth, 4 * columns);
    const auto fill = [&](Tile& tile, bool is_float) {
      for (size_t i = 0; i < tile.size(); i += 4) {
        const uint16_t low = is_float ? static_cast<uint16_t>(engine_()) : bf16(numbers);
        uint32_t word = static_cast<uint32_t>(bf16(numbers)) << 16 | low;
        if (is_float && numbers == Numbers::subnormal) word = (word & 0x807fffffU) | below(6) << 23;
        std::memcpy(tile.data() + i, &word, sizeof word);
      }
    };
    fill(p.sums, true);
    fill(p.rows, false);
    fill(p.columns, false);
    return p;
  }

 private:
  std::mt19937_64 engine_{20261123};
};

constexpr uint64_t kRecordedDigest = 0x32d2743328686459U;

enum class Operation { bf16, i8_i8, i8_u8, u8_i8 };
constexpr std::array kOperations = {
    Operation::bf16, Operation::i8_i8, Operation::i8_u8, Operation::u8_i8};

template <typename Tiles>
Tile run(Tiles& tiles, const Product& p, Operation operation) {
  tiles.configure(p.shapes);
  tiles.template load<kSums00>(p.sums.data(), kTileRowBytes);
  tiles.template load<kRows0>(p.rows.data(), kTileRowBytes);
  tiles.template load<kColumns0>(p.columns.data(), kTileRowBytes);
  switch (operation) {
    case Operation::bf16:
      tiles.template add_bf16<kSums00, kRows0, kColumns0>();
      break;
    case Operation::i8_i8:
      tiles.template add_i8_i8<kSums00, kRows0, kColumns0>();
      break;
    case Operation::i8_u8:
      tiles.template add_i8_u8<kSums00, kRows0, kColumns0>();
      break;
    case Operation::u8_i8:
      tiles.template add_u8_i8<kSums00, kRows0, kColumns0>();
      break;
  }
  Tile out = {};
  tiles.template store<kSums00>(out.data(), kTileRowBytes);
  return out;
}

template <typename Tiles>
uint64_t digest_of_random_products() {
  Random random;
  Tiles tiles;
  uint64_t digest = 0xcbf29ce484222325U;  // FNV-1a
  for (const Numbers numbers : kNumbers) {
    for (int i = 0; i < 100; ++i) {
      const Product product = random.product(numbers);
      for (const Operation operation : kOperations) {
        for (const uint8_t byte : run(tiles, product, operation)) {
          digest = (digest ^ byte) * 0x100000001b3U;
        }
      }
    }
  }
  return digest;
}

#if defined(__x86_64__)
bool has_amx() {
  const device::CpuFeatures features = device::detect_cpu_features();
  return features.amx_tile && features.amx_bf16 && features.amx_int8;
}

TEST(Tiles, of_software_have_the_bits_of_the_instructions) {
  if (!has_amx()) GTEST_SKIP() << "no AMX";
  Random random;
  software::Tiles soft;
  hardware::Tiles hard;
  for (const Numbers numbers : kNumbers) {
    for (int i = 0; i < 1000; ++i) {
      const Product product = random.product(numbers);
      for (const Operation operation : kOperations) {
        ASSERT_EQ(run(soft, product, operation), run(hard, product, operation))
            << "numbers " << static_cast<int>(numbers) << ", product " << i << ", operation "
            << static_cast<int>(operation);
      }
    }
  }
}

TEST(Tiles, of_the_processor_give_the_recorded_bits) {
  if (!has_amx()) GTEST_SKIP() << "no AMX";
  EXPECT_EQ(digest_of_random_products<hardware::Tiles>(), kRecordedDigest);
}
#endif

// The digest was computed with the instructions.
TEST(Tiles, of_software_give_the_recorded_bits) {
  EXPECT_EQ(digest_of_random_products<software::Tiles>(), kRecordedDigest);
}

// Sums between a subnormal number and the least normal one, 2^-126 - 2^-e. Rounded to 24 bits at
// their own exponent, those from e = 151 on are 2^-126.
TEST(Tiles, of_software_flush_what_is_tiny_after_rounding) {
  for (int e = 149; e < 156; ++e) {
    Product p = {};
    p.shapes.set(kSums00, 1, 4);
    p.shapes.set(kRows0, 1, 8);
    p.shapes.set(kColumns0, 2, 4);
    const auto put = [](Tile& tile, size_t at, float value) {
      std::memcpy(tile.data() + at, reinterpret_cast<const uint8_t*>(&value) + 2, 2);
    };
    put(p.rows, 0, 0x1p-126F);
    put(p.columns, 0, 1.0F);
    put(p.rows, 4, -0x1p-70F);
    put(p.columns, kTileRowBytes, std::ldexp(1.0F, 70 - e));
    software::Tiles soft;
    const Tile out = run(soft, p, Operation::bf16);
    float sum;
    std::memcpy(&sum, out.data(), sizeof sum);
    EXPECT_EQ(sum, e < 151 ? 0.0F : 0x1p-126F) << e;
  }
}

TEST(Tiles, are_zero_after_a_change_of_shapes) {
  Product p = Random().product(Numbers::usual);
  software::Tiles soft;
  (void)run(soft, p, Operation::bf16);
  p.shapes = product_shapes(32);
  soft.configure(p.shapes);
  Tile out;
  out.fill(1);
  soft.store<kSums00>(out.data(), kTileRowBytes);
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](uint8_t byte) { return byte == 0; }));
}

}  // namespace
}  // namespace reprise::kernels::tiles_test

#undef REPRISE_INLINE
