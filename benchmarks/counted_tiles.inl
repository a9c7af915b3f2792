// The class Tiles of vector/tiles_software.inl, which also counts the instructions.

namespace software {
#include "reprise/kernels/vector/tiles_software.inl"
}  // namespace software

struct TileCounts {
  int64_t loads = 0;
  int64_t stores = 0;
  int64_t products = 0;
};
TileCounts tile_counts;

class Tiles {
 public:
  void configure(const TileShapes& shapes) { tiles_.configure(shapes); }
  template <int kTile>
  void clear() {
    tiles_.clear<kTile>();
  }
  template <int kTile>
  void load(const void* rows, int64_t stride) {
    ++tile_counts.loads;
    tiles_.load<kTile>(rows, stride);
  }
  template <int kTile>
  void store(void* rows, int64_t stride) const {
    ++tile_counts.stores;
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
  software::Tiles tiles_;
};
