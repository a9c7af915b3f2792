// The class Tiles of vector/tiles_software.inl, which also counts the instructions and the lines
// that they bring from the second cache level.

namespace software {
#include "reprise/kernels/vector/tiles_software.inl"
}  // namespace software

struct TileCounts {
  int64_t loads = 0;
  int64_t stores = 0;
  int64_t products = 0;
  int64_t lines = 0;  // read from the second cache level, or written back to it
};
TileCounts tile_counts;

// The first cache level of a core with AMX, as far as tiles use it: 48 KiB, lines of 64 bytes, 12
// in each of 64 sets, and the line that was used longest ago leaves. Source: Intel 64 and IA-32
// Architectures Optimization Reference Manual, Golden Cove.
class FirstLevel {
 public:
  void use(const void* rows, int64_t stride, int count, int bytes, bool writes) {
    const auto begin = reinterpret_cast<uintptr_t>(rows);
    for (int r = 0; r < count; ++r) {
      const uintptr_t at = begin + static_cast<uintptr_t>(r) * static_cast<uintptr_t>(stride);
      for (uintptr_t line = at / 64; line <= (at + static_cast<uintptr_t>(bytes) - 1) / 64;
           ++line) {
        use_line(line, writes);
      }
    }
  }

 private:
  static constexpr int kSets = 64;
  static constexpr int kWays = 12;
  struct Line {
    uintptr_t number = 0;
    int64_t last_use = 0;
    bool is_written = false;
  };

  void use_line(uintptr_t number, bool writes) {
    Line* const set = lines_[number % kSets];
    Line* found = set;
    for (Line* line = set; line != set + kWays; ++line) {
      if (line->number == number) {
        found = line;
        break;
      }
      if (line->last_use < found->last_use) found = line;
    }
    if (found->number != number) {
      tile_counts.lines += found->is_written ? 2 : 1;
      *found = {.number = number};
    }
    found->last_use = ++clock_;
    found->is_written |= writes;
  }

  int64_t clock_ = 0;
  Line lines_[kSets][kWays];
};
FirstLevel first_level;

class Tiles {
 public:
  void configure(const TileShapes& shapes) {
    shapes_ = shapes;
    tiles_.configure(shapes);
  }
  template <int kTile>
  void clear() {
    tiles_.clear<kTile>();
  }
  template <int kTile>
  void load(const void* rows, int64_t stride) {
    ++tile_counts.loads;
    first_level.use(rows, stride, shapes_.rows[kTile], shapes_.bytes[kTile], false);
    tiles_.load<kTile>(rows, stride);
  }
  template <int kTile>
  void store(void* rows, int64_t stride) const {
    ++tile_counts.stores;
    first_level.use(rows, stride, shapes_.rows[kTile], shapes_.bytes[kTile], true);
    tiles_.store<kTile>(rows, stride);
  }
  template <int kSums, int kRows, int kColumns>
  void add_bf16() {
    ++tile_counts.products;
    tiles_.add_bf16<kSums, kRows, kColumns>();
  }
  template <int kSums, int kRows, int kColumns>
  void add_i8_i8() {
    ++tile_counts.products;
    tiles_.add_i8_i8<kSums, kRows, kColumns>();
  }
  template <int kSums, int kRows, int kColumns>
  void add_i8_u8() {
    ++tile_counts.products;
    tiles_.add_i8_u8<kSums, kRows, kColumns>();
  }
  template <int kSums, int kRows, int kColumns>
  void add_u8_i8() {
    ++tile_counts.products;
    tiles_.add_u8_i8<kSums, kRows, kColumns>();
  }

 private:
  TileShapes shapes_;
  software::Tiles tiles_;
};
