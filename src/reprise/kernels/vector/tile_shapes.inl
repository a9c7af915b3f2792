// The shapes of AMX tiles. The class Tiles of tiles_amx.inl and that of tiles_software.inl use
// them.

constexpr int kTiles = 8;
constexpr int kTileHeight = 16;      // rows
constexpr int kTileRowBytes = 64;    // of a row
constexpr int kTileSumColumns = 16;  // float32 or int32
constexpr int64_t kTileDepth = 32;   // elements of bfloat16 in a row of a tile
// The number of rows that eight tiles multiply with the same number of columns: two by two tiles of
// sums.
constexpr int64_t kGroupRows = int64_t{2} * kTileHeight;

/// The shapes of the eight tiles. The instructions take them from the core's tile configuration.
struct TileShapes {
  uint16_t bytes[kTiles] = {};  // of a row, at most kTileRowBytes
  uint8_t rows[kTiles] = {};    // at most kTileHeight

  void set(int tile, int num_rows, int num_bytes) {
    rows[tile] = static_cast<uint8_t>(num_rows);
    bytes[tile] = static_cast<uint16_t>(num_bytes);
  }

  friend bool operator==(const TileShapes& a, const TileShapes& b) {
    for (int t = 0; t < kTiles; ++t) {
      if (a.bytes[t] != b.bytes[t] || a.rows[t] != b.rows[t]) return false;
    }
    return true;
  }
};

// The tiles of a product of up to 32 rows with 32 columns. Each A tile is used with both B tiles,
// and each B tile with both A tiles.
constexpr int kSums00 = 0;  // rows 0 to 15, columns 0 to 15
constexpr int kSums01 = 1;
constexpr int kSums10 = 2;
constexpr int kSums11 = 3;
constexpr int kRows0 = 4;
constexpr int kRows1 = 5;
constexpr int kColumns0 = 6;
constexpr int kColumns1 = 7;

/// Shapes of these tiles for 1 to 32 rows. If the second half has no rows, its tiles are unused.
inline TileShapes product_shapes(int64_t rows) {
  const int first = static_cast<int>(rows < kTileHeight ? rows : kTileHeight);
  const int second = static_cast<int>(rows) - first;
  TileShapes shapes;
  for (int t : {kSums00, kSums01, kRows0}) shapes.set(t, first, kTileRowBytes);
  if (second > 0) {
    for (int t : {kSums10, kSums11, kRows1}) shapes.set(t, second, kTileRowBytes);
  }
  for (int t : {kColumns0, kColumns1}) shapes.set(t, kTileHeight, kTileRowBytes);
  return shapes;
}

// The tiles of a product of up to 16 rows with 64 columns: four tiles of sums, 0 to 3. The A tile
// is used with four B tiles.
constexpr int64_t kQuadPanels = 4;
constexpr int kQuadRows = 4;
constexpr int kQuadColumns0 = 6;
constexpr int kQuadColumns1 = 7;

/// Shapes of these tiles for 1 to 16 rows.
inline TileShapes quad_shapes(int64_t rows) {
  TileShapes shapes;
  for (int t : {0, 1, 2, 3, kQuadRows}) shapes.set(t, static_cast<int>(rows), kTileRowBytes);
  for (int t : {kQuadColumns0, kQuadColumns1}) shapes.set(t, kTileHeight, kTileRowBytes);
  return shapes;
}
