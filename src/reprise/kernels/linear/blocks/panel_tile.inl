// Products of quantised rows with panels. Integer sums of a block, or of half a block, are exact;
// float sums are added over the blocks in order. So every function here computes the same bits for
// a row and a column, whatever its other rows and columns are.

inline int32_t sum_of(const ActivationBlock& x, int part, int parts) {
  return parts == 2 ? x.sums[part] : x.sums[0] + x.sums[1];
}

template <bool kWide>
REPRISE_INLINE Panel::Sums add_products(Panel::Sums sums, Panel::Codes codes, Panel::Four x) {
  if constexpr (kWide) {
    return Panel::add_wide(sums, codes, x);
  } else {
    return Panel::add_narrow(sums, codes, x);
  }
}

// Prefetches bytes that are read later. After the end of a panel there may be another panel or
// other memory; prefetching it is harmless. kLevel 3: into the first cache level; 2: into the
// second.
template <int kLevel = 2>
REPRISE_INLINE void prefetch_bytes(const uint8_t* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, kLevel);
}

// The distance in bytes at which decoding prefetches: about 100 ns of reading at the bandwidth of
// one core.
constexpr int64_t kPrefetchBytes = 4096;

// Whether a product with a single row prefetches its weights. Zen 4, whose kernels are those with
// bf16 and without tiles, prefetches in hardware: software prefetching made decoding of Q8_0 a
// fifth slower, and only plain blocks of nibbles gained from it
// (benchmarks/results/2026-11-26-block-scaled-products.md).
constexpr bool row_asks_ahead([[maybe_unused]] PanelFormat format) {
#ifdef REPRISE_ISA_HAS_BF16
  return panel_traits(format).planes == CodePlanes::nibble &&
         panel_layout(format).super_blocks == 1;
#else
  return true;
#endif
}

// The sums with which part `part` of a block begins: codes are too large by `offset`. `P` is Panel.
template <int kParts, typename P = Panel>
REPRISE_INLINE Panel::Sums start_sums(const ActivationBlock& x, int part, int offset) {
  if constexpr (kPanelSumsInWords) {
    const int first = kParts == 1 || part == 0 ? -offset : 0;
    const int second = kParts == 1 || part == 1 ? -offset : 0;
    return P::start_sums(x.sums, P::start_factors(first, second));
  } else {
    return P::start(-offset * sum_of(x, part, kParts));
  }
}

// sums + the products of x with groups [kBegin, kEnd) of a block. `P` is Panel.
template <PanelFormat kFormat, int kBegin, int kEnd, typename P = Panel>
REPRISE_INLINE Panel::Sums add_groups(Panel::Sums sums, const int8_t* x, const uint8_t* panel) {
  using Unpacker = PanelUnpacker<kFormat>;
  constexpr int kGroups = groups_in_words(kFormat);
  if constexpr (kGroups == 0) {
    for_numbers<kBegin, kEnd>([&](auto group) REPRISE_LAMBDA_INLINE {
      sums = add_products<Unpacker::kTraits.is_wide()>(sums,
                                                       Unpacker::template codes<group.value>(panel),
                                                       P::broadcast_four(x + 4 * group.value));
    });
  } else if constexpr (kBegin < kEnd) {
    auto words = P::multiply_words(Unpacker::template codes<kBegin>(panel),
                                   P::broadcast_four(x + 4 * kBegin));
    for_numbers<kBegin + 1, kBegin + kGroups>([&](auto group) REPRISE_LAMBDA_INLINE {
      words = P::add_words(words,
                           P::multiply_words(Unpacker::template codes<group.value>(panel),
                                             P::broadcast_four(x + 4 * group.value)));
    });
    sums = P::add_word_sums(sums, words);
    return add_groups<kFormat, kBegin + kGroups, kEnd>(sums, x, panel);
  }
  return sums;
}

// One row of x times one panel, without unpacking: decoding reads each weight once, so the codes of
// a block stay in registers.
template <PanelFormat kFormat>
inline void panel_row(const ActivationBlock* x,
                      int64_t blocks,
                      const uint8_t* panel,
                      float* totals) {
  using Unpacker = PanelUnpacker<kFormat>;
  constexpr PanelTraits kTraits = Unpacker::kTraits;
  constexpr int kOffset = kTraits.is_wide() ? Panel::kWideOffset : kTraits.offset;
  constexpr int kGroups = 8 / kTraits.parts;
  Panel::Floats total{};
  for (int64_t super = 0; super < blocks; super += Unpacker::kLayout.super_blocks) {
    const uint8_t* head = panel;
    panel += Unpacker::kHeadBytes;
    for (int b = 0; b < Unpacker::kLayout.super_blocks; ++b, ++x, panel += Unpacker::kBlockBytes) {
      if constexpr (row_asks_ahead(kFormat)) {
        // The prefetch goes to the first cache level: to the second level it was slower on Zen 4.
        prefetch_bytes<3>(panel + kPrefetchBytes, Unpacker::kBlockBytes);
      }
      for_numbers<0, kTraits.parts>([&](auto part) REPRISE_LAMBDA_INLINE {
        const int32_t x_sum = sum_of(*x, part.value, kTraits.parts);
        const Panel::Sums sums =
            add_groups<kFormat, part.value * kGroups, (part.value + 1) * kGroups>(
                start_sums<kTraits.parts>(*x, part.value, kOffset), x->codes, panel);
        total = Panel::accumulate(
            sums, Unpacker::template scales<part.value>(head, panel), x->scale, total);
        if constexpr (kTraits.has_least) {
          total = Panel::accumulate(Unpacker::template least<part.value>(head, panel),
                                    x->scale * static_cast<float>(x_sum),
                                    total);
        }
      });
    }
  }
  Panel::store(totals, total);
}

// The number of tiles that prefetch the next stretch of a panel.
constexpr int64_t kPrefetchTiles = 4;

// With several rows, a stretch of blocks is unpacked once and multiplied with all rows.
constexpr int kChunkBlocks = 8;  // a multiple of all super-blocks
// If tiles read the codes from the weight, stretches are longer: their totals are loaded and stored
// less often. Two panels and the scales of a stretch stay in the first cache level.
constexpr int kMostStretchBlocks = 16;

// A stretch of blocks of the rows of x that are multiplied together: the first block of row r is at
// x + r * x_blocks. A stretch must be used before the next one is requested, which may overwrite
// it.
struct RowStretch {
  const ActivationBlock* x;
  int64_t x_blocks;
};

struct UnpackedPanel {
  alignas(64) uint8_t codes[kChunkBlocks * 512 * (kPanelSumsInWords ? 2 : 1)];
  alignas(
      64) int32_t starts[kChunkBlocks * 16];  // of divides_signs(): the sums of a block begin so
  alignas(64) float scales[kMostStretchBlocks * 2 * 16];  // of a block: [parts][columns]
  alignas(64) float least[kMostStretchBlocks * 2 * 16];
  // The address from which tiles read the codes of each block: in `codes`, or in the weight.
  const uint8_t* blocks[kMostStretchBlocks];
};

// Which of the kernels below an unpacked panel needs.
struct TileKind {
  bool is_wide = false;
  bool is_divided = false;  // into magnitudes and signs
  bool has_least = false;
  bool is_nibbles = false;  // tiles separate the two codes of a byte in registers
  int parts = 1;
  int groups_in_words = 0;
  int offset = 0;  // only where is_wide is false

  friend constexpr bool operator==(const TileKind&, const TileKind&) = default;
};

// Whether tiles read nibbles directly from the weight. Each tile of rows must then separate them
// again, which vectors of 64 bytes do in parallel to their products.
constexpr bool tiles_read_nibbles(PanelFormat format) {
  return kPanelTilesReadNibbles && panel_traits(format).planes == CodePlanes::nibble;
}

// With this number of rows and more, large codes are divided into magnitudes and signs while they
// are unpacked, if the instruction set gains from it. With fewer rows this takes longer than it
// saves.
constexpr int64_t kFewestDividedRows = 20;

constexpr bool divides_signs(PanelFormat format, int64_t rows) {
  return kPanelSumsInWords && panel_traits(format).is_wide() && rows >= kFewestDividedRows;
}

// Whether tiles read the codes of a format directly from the weight.
constexpr bool tiles_read_weight(PanelFormat format, int64_t rows) {
  return (panel_traits(format).planes == CodePlanes::byte && !divides_signs(format, rows)) ||
         tiles_read_nibbles(format);
}

constexpr TileKind tile_kind(PanelFormat format, int64_t rows) {
  const PanelTraits traits = panel_traits(format);
  return {.is_wide = traits.is_wide(),
          .is_divided = divides_signs(format, rows),
          .has_least = traits.has_least,
          .is_nibbles = tiles_read_nibbles(format),
          .parts = traits.parts,
          .groups_in_words = groups_in_words(format),
          .offset = traits.is_wide() ? Panel::kWideOffset : traits.offset};
}

// The kind, for kernels that learn the offset when they run.
constexpr TileKind without_offset(TileKind kind) {
  kind.offset = 0;
  return kind;
}

// Unpacks block `b` of a panel as magnitudes and signs. `P` is Panel.
template <PanelFormat kFormat, typename P = Panel>
REPRISE_INLINE void unpack_signed(const uint8_t* panel, int64_t b, UnpackedPanel& to) {
  if constexpr (divides_signs(kFormat, kFewestDividedRows)) {
    uint8_t* to_block = to.codes + b * 8 * P::kSignedBytes;
    typename P::WordSums sums{};
    for_numbers<0, 8>([&](auto group) REPRISE_LAMBDA_INLINE {
      const auto codes = PanelUnpacker<kFormat>::template codes<group.value>(panel);
      sums = P::add_words(sums, P::store_signed(to_block + group.value * P::kSignedBytes, codes));
    });
    P::store_sums(to.starts + b * kPanelColumns, P::minus_word_sums(sums));
    to.blocks[b] = to_block;
  }
}

// Unpacks blocks [begin, begin + blocks) of a panel; both are multiples of a super-block. The codes
// become signed values, or remain values + offset, or are divided for `rows` rows.
template <PanelFormat kFormat, bool kSigned>
inline void unpack_panel(
    const uint8_t* panel, int64_t begin, int64_t blocks, int64_t rows, UnpackedPanel& to) {
  using Unpacker = PanelUnpacker<kFormat>;
  constexpr int64_t kSuperBlocks = Unpacker::kLayout.super_blocks;
  panel += begin / kSuperBlocks * (Unpacker::kHeadBytes + kSuperBlocks * Unpacker::kBlockBytes);
  for (int64_t super = 0; super < blocks; super += kSuperBlocks) {
    const uint8_t* head = panel;
    panel += Unpacker::kHeadBytes;
    for (int64_t b = super; b < super + kSuperBlocks; ++b, panel += Unpacker::kBlockBytes) {
      if (!kSigned && tiles_read_weight(kFormat, rows)) {
        to.blocks[b] = panel;
      } else if (!kSigned && divides_signs(kFormat, rows)) {
        unpack_signed<kFormat>(panel, b, to);
      } else {
        to.blocks[b] = to.codes + b * 512;
        for_numbers<0, 8>([&](auto group) REPRISE_LAMBDA_INLINE {
          Panel::Codes codes = Unpacker::template codes<group.value>(panel);
          if constexpr (kSigned) codes = Panel::minus(codes, Unpacker::kTraits.offset);
          Panel::store_codes(to.codes + b * 512 + group.value * 64, codes);
        });
      }
      for_numbers<0, Unpacker::kTraits.parts>([&](auto part) REPRISE_LAMBDA_INLINE {
        const int64_t at = (b * Unpacker::kTraits.parts + part.value) * kPanelColumns;
        Panel::store(to.scales + at, Unpacker::template scales<part.value>(head, panel));
        if constexpr (Unpacker::kTraits.has_least) {
          Panel::store(to.least + at, Unpacker::template least<part.value>(head, panel));
        }
      });
    }
  }
}

template <bool kSigned>
inline void unpack_panel(PanelFormat format,
                         const uint8_t* panel,
                         int64_t begin,
                         int64_t blocks,
                         int64_t rows,
                         UnpackedPanel& to) {
  with_panel_format(format, [&](auto number) {
    unpack_panel<static_cast<PanelFormat>(number.value), kSigned>(panel, begin, blocks, rows, to);
  });
}

// The rows of one tile, and the addresses of their totals: rows of x are `x_blocks` apart, totals
// of neighbouring rows `stride` apart.
struct TileRows {
  const ActivationBlock* x;
  int64_t x_blocks;
  int64_t blocks;
  bool is_first;  // the totals begin at 0
  float* totals[kPanelTileColumns];
  int64_t stride;
  // For each panel, the bytes that are read next: prefetched while the tiles compute, `lines_ahead`
  // cache lines per block and panel.
  const uint8_t* ahead[kPanelTileColumns];
  int lines_ahead;
};

REPRISE_INLINE void prefetch_ahead(TileRows& rows) {
  for (int line = 0; line < rows.lines_ahead; ++line) {
    for (const uint8_t*& at : rows.ahead) {
      __builtin_prefetch(at, 0, 2);
      at += 64;
    }
  }
}

// Adds the scaled sums of part `part` of one block, which is entry `i` of the scales of `panel`.
template <bool kLeast, int kParts, int kRows>
REPRISE_INLINE void add_scaled_sums(const UnpackedPanel& panel,
                                    int64_t i,
                                    int part,
                                    const ActivationBlock* x,
                                    int64_t x_blocks,
                                    const Panel::Sums* sums,
                                    Panel::Floats* totals) {
  const Panel::Floats scales = Panel::load_floats(panel.scales + i * kPanelColumns);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    totals[r] = Panel::accumulate(sums[r], scales, x[r * x_blocks].scale, totals[r]);
  }
  if constexpr (kLeast) {
    const Panel::Floats least = Panel::load_floats(panel.least + i * kPanelColumns);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const ActivationBlock& block = x[r * x_blocks];
      totals[r] = Panel::accumulate(
          least, block.scale * static_cast<float>(sum_of(block, part, kParts)), totals[r]);
    }
  }
}

// sums += the products of kRows rows with group `group` of the codes of a block.
template <bool kWide, int kRows>
REPRISE_INLINE void add_group(const ActivationBlock* x,
                              int64_t x_blocks,
                              int group,
                              const Panel::Codes (&codes)[kPanelTileColumns],
                              Panel::Sums (&sums)[kPanelTileColumns][kRows]) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const Panel::Four four = Panel::broadcast_four(x[r * x_blocks].codes + 4 * group);
#pragma GCC unroll 2
    for (int c = 0; c < kPanelTileColumns; ++c) {
      sums[c][r] = add_products<kWide>(sums[c][r], codes[c], four);
    }
  }
}

// Does the same for the groups of small codes from `group` on whose products are added in 16 bits.
template <int kGroups, int kRows, typename P = Panel>
REPRISE_INLINE void add_groups_in_words(const ActivationBlock* x,
                                        int64_t x_blocks,
                                        int group,
                                        const uint8_t* const (&blocks)[kPanelTileColumns],
                                        Panel::Sums (&sums)[kPanelTileColumns][kRows]) {
  typename P::WordSums words[kPanelTileColumns][kRows];
#pragma GCC unroll 8
  for (int g = group; g < group + kGroups; ++g) {
    Panel::Codes codes[kPanelTileColumns];
#pragma GCC unroll 2
    for (int c = 0; c < kPanelTileColumns; ++c) codes[c] = Panel::load(blocks[c] + g * 64);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Panel::Four four = Panel::broadcast_four(x[r * x_blocks].codes + 4 * g);
#pragma GCC unroll 2
      for (int c = 0; c < kPanelTileColumns; ++c) {
        const auto products = P::multiply_words(codes[c], four);
        words[c][r] = g == group ? products : P::add_words(words[c][r], products);
      }
    }
  }
#pragma GCC unroll 2
  for (int c = 0; c < kPanelTileColumns; ++c) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[c][r] = P::add_word_sums(sums[c][r], words[c][r]);
  }
}

// Does the same for all groups of a block of large codes.
template <int kRows, typename P = Panel>
REPRISE_INLINE void add_signed_groups(const ActivationBlock* x,
                                      int64_t x_blocks,
                                      const uint8_t* const (&blocks)[kPanelTileColumns],
                                      Panel::Sums (&sums)[kPanelTileColumns][kRows]) {
#pragma GCC unroll 8
  for (int g = 0; g < 8; ++g) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Panel::Four four = Panel::broadcast_four(x[r * x_blocks].codes + 4 * g);
#pragma GCC unroll 2
      for (int c = 0; c < kPanelTileColumns; ++c) {
        sums[c][r] = P::add_signed(sums[c][r], blocks[c] + g * P::kSignedBytes, four);
      }
    }
  }
}

// Does the same for all groups of a block, or of part `part` of one. `blocks[c]`: codes of panel c.
template <TileKind kKind, int kRows>
REPRISE_INLINE void add_block(const ActivationBlock* x,
                              int64_t x_blocks,
                              int part,
                              const uint8_t* const (&blocks)[kPanelTileColumns],
                              Panel::Sums (&sums)[kPanelTileColumns][kRows]) {
  Panel::Codes codes[kPanelTileColumns];
  if constexpr (kKind.is_nibbles) {
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      Panel::Codes pairs[kPanelTileColumns];
#pragma GCC unroll 2
      for (int c = 0; c < kPanelTileColumns; ++c) {
        pairs[c] = Panel::load(blocks[c] + g * 64);
        codes[c] = Panel::low_halves(pairs[c]);
      }
      add_group<kKind.is_wide, kRows>(x, x_blocks, g, codes, sums);
#pragma GCC unroll 2
      for (int c = 0; c < kPanelTileColumns; ++c) codes[c] = Panel::high_halves(pairs[c]);
      add_group<kKind.is_wide, kRows>(x, x_blocks, 4 + g, codes, sums);
    }
  } else if constexpr (kKind.is_divided) {
    add_signed_groups<kRows>(x, x_blocks, blocks, sums);
  } else if constexpr (kKind.groups_in_words > 0) {
    constexpr int kGroups = 8 / kKind.parts;
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; g += kKind.groups_in_words) {
      add_groups_in_words<kKind.groups_in_words, kRows>(
          x, x_blocks, part * kGroups + g, blocks, sums);
    }
  } else {
    constexpr int kGroups = 8 / kKind.parts;
#pragma GCC unroll 8
    for (int g = part * kGroups; g < (part + 1) * kGroups; ++g) {
#pragma GCC unroll 2
      for (int c = 0; c < kPanelTileColumns; ++c) codes[c] = Panel::load(blocks[c] + g * 64);
      add_group<kKind.is_wide, kRows>(x, x_blocks, g, codes, sums);
    }
  }
}

// totals += kRows rows of x times kPanelTileColumns unpacked panels of one kind.
template <TileKind kKind, int kRows>
inline void panel_tile(const UnpackedPanel* const* panels, int offset, TileRows& rows) {
  constexpr int kParts = kKind.parts;
  Panel::Floats totals[kPanelTileColumns][kRows];
#pragma GCC unroll 2
  for (int c = 0; c < kPanelTileColumns; ++c) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      totals[c][r] =
          rows.is_first ? Panel::Floats{} : Panel::load_floats(rows.totals[c] + r * rows.stride);
    }
  }
  const ActivationBlock* x = rows.x;
  for (int64_t i = 0; i < rows.blocks * kParts; ++i) {
    const int part = kParts == 2 ? static_cast<int>(i % 2) : 0;
    if (part == 0) prefetch_ahead(rows);
    const uint8_t* blocks[kPanelTileColumns];
    for (int c = 0; c < kPanelTileColumns; ++c) blocks[c] = panels[c]->blocks[i / kParts];
    Panel::Sums sums[kPanelTileColumns][kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if constexpr (kKind.is_divided) {
#pragma GCC unroll 2
        for (int c = 0; c < kPanelTileColumns; ++c) {
          sums[c][r] = Panel::load_sums(panels[c]->starts + i * kPanelColumns);
        }
      } else {
        const Panel::Sums start = start_sums<kParts>(x[r * rows.x_blocks], part, offset);
#pragma GCC unroll 2
        for (int c = 0; c < kPanelTileColumns; ++c) sums[c][r] = start;
      }
    }
    add_block<kKind, kRows>(x, rows.x_blocks, part, blocks, sums);
#pragma GCC unroll 2
    for (int c = 0; c < kPanelTileColumns; ++c) {
      add_scaled_sums<kKind.has_least, kParts, kRows>(
          *panels[c], i, part, x, rows.x_blocks, sums[c], totals[c]);
    }
    if (kParts == 1 || part == 1) ++x;
  }
#pragma GCC unroll 2
  for (int c = 0; c < kPanelTileColumns; ++c) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) Panel::store(rows.totals[c] + r * rows.stride, totals[c][r]);
  }
}

// Does the same for `num_rows` rows, divided into tiles of nearly the same height: a tile of two
// rows would wait for its sums.
template <TileKind kKind>
inline void panel_tiles(const UnpackedPanel* const* panels,
                        int offset,
                        int64_t num_rows,
                        TileRows rows) {
  const int64_t tiles = ceil_div(num_rows, kPanelTileRows);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t count = num_rows * (t + 1) / tiles - num_rows * t / tiles;
    for_numbers<1, kPanelTileRows + 1>([&](auto number) REPRISE_LAMBDA_INLINE {
      if (count == number.value) panel_tile<kKind, number.value>(panels, offset, rows);
    });
    if (t + 1 == kPrefetchTiles) rows.lines_ahead = 0;
    rows.x += count * rows.x_blocks;
    for (float*& totals : rows.totals) totals += count * rows.stride;
  }
}

// One format of each kind of tile.
constexpr PanelFormat kFormatsOfKinds[] = {PanelFormat::q8_0,
                                           PanelFormat::q4_0,
                                           PanelFormat::q4_1,
                                           PanelFormat::q5_0,
                                           PanelFormat::q5_1,
                                           PanelFormat::mxfp4,
                                           PanelFormat::q2_k,
                                           PanelFormat::q3_k,
                                           PanelFormat::q6_k,
                                           PanelFormat::nvfp4};
constexpr int kNumKinds = sizeof(kFormatsOfKinds) / sizeof(kFormatsOfKinds[0]);

constexpr bool have_all_formats_a_kind(int64_t rows) {
  for (int i = 0; i < kNumPanelFormats; ++i) {
    const TileKind kind = without_offset(tile_kind(static_cast<PanelFormat>(i), rows));
    bool is_found = false;
    for (PanelFormat format : kFormatsOfKinds) {
      is_found = is_found || without_offset(tile_kind(format, rows)) == kind;
    }
    if (!is_found) return false;
  }
  return true;
}
static_assert(have_all_formats_a_kind(1) && have_all_formats_a_kind(kFewestDividedRows));

template <int64_t kRowsOfBatch>
inline void panel_tiles_of_kind(const UnpackedPanel* const* panels,
                                const TileKind& kind,
                                int64_t num_rows,
                                const TileRows& rows) {
  bool is_done = false;  // two formats may have the same kind
  for_numbers<0, kNumKinds>([&](auto number) REPRISE_LAMBDA_INLINE {
    constexpr TileKind kKind =
        without_offset(tile_kind(kFormatsOfKinds[number.value], kRowsOfBatch));
    if (is_done || without_offset(kind) != kKind) return;
    panel_tiles<kKind>(panels, kind.offset, num_rows, rows);
    is_done = true;
  });
}

inline void panel_tiles(const UnpackedPanel* const* panels,
                        const TileKind& kind,
                        int64_t num_rows,
                        const TileRows& rows) {
  if (kind.is_divided) {
    panel_tiles_of_kind<kFewestDividedRows>(panels, kind, num_rows, rows);
  } else {
    panel_tiles_of_kind<1>(panels, kind, num_rows, rows);
  }
}
