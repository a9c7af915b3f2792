// Rows of tables in panels. gather_rows copies the rows of other tables.
inline void run_panel_embedding(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const EmbeddingArguments*>(args);
  const auto* table = reinterpret_cast<const BFloat16*>(a.table);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t id = a.ids[row];
      BFloat16* out = static_cast<BFloat16*>(a.out) + row * a.tiles.width;
      if (id < 0 || id >= a.table_rows) {
        __builtin_memset(out, 0, static_cast<size_t>(a.tiles.width) * sizeof(BFloat16));
        continue;
      }
      const BFloat16* from = table + column_panel_offset(id, 0, a.tiles.width);
      for (int64_t i = 0; i < a.tiles.width; i += 2, from += 2 * kPanelColumns) {
        __builtin_memcpy(out + i, from, 2 * sizeof(BFloat16));
      }
    }
  }
}

template <typename Out>
void run_int8_embedding(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const EmbeddingArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      Out* out = static_cast<Out*>(a.out) + row * width;
      const int64_t id = a.ids[row];
      if (id < 0 || id >= a.table_rows) {
        __builtin_memset(out, 0, static_cast<size_t>(width) * sizeof(Out));
        continue;
      }
      float scale;
      __builtin_memcpy(&scale, a.table + int8_scale_offset(id, width), sizeof scale);
      const auto* fours =
          reinterpret_cast<const int8_t*>(a.table + int8_panel_offset(id, 0, width));
      for (int64_t i = 0; i < width; i += 4, fours += 4 * kPanelColumns) {
        for (int64_t j = 0; j < 4; ++j) {
          store_element(out + i + j, scale * static_cast<float>(fours[j]));
        }
      }
    }
  }
}

// Dequantises one column of a panel. The function computes all 16 columns of the panel, which is
// fast enough, because few rows of a table are looked up.
template <PanelFormat kFormat, typename Out>
inline void dequantize_column(const uint8_t* panel, int64_t column, int64_t blocks, Out* out) {
  using Unpacker = PanelUnpacker<kFormat>;
  constexpr PanelTraits kTraits = Unpacker::kTraits;
  for (int64_t super = 0; super < blocks; super += Unpacker::kLayout.super_blocks) {
    const uint8_t* head = panel;
    panel += Unpacker::kHeadBytes;
    for (int b = 0; b < Unpacker::kLayout.super_blocks; ++b, panel += Unpacker::kBlockBytes) {
      uint8_t codes[64];
      float scales[2][kPanelColumns];
      float least[2][kPanelColumns] = {};
      for_numbers<0, kTraits.parts>([&](auto part) REPRISE_LAMBDA_INLINE {
        Panel::store(scales[part.value], Unpacker::template scales<part.value>(head, panel));
        if constexpr (kTraits.has_least) {
          Panel::store(least[part.value], Unpacker::template least<part.value>(head, panel));
        }
      });
      for_numbers<0, 8>([&](auto group) REPRISE_LAMBDA_INLINE {
        constexpr int kPart = group.value * kTraits.parts / 8;
        Panel::store_codes(codes, Unpacker::template codes<group.value>(panel));
        for (int i = 0; i < 4; ++i) {
          const auto code = static_cast<float>(codes[column * 4 + i] - kTraits.offset);
          store_element(out++, scales[kPart][column] * code + least[kPart][column]);
        }
      });
    }
  }
}

template <typename Out>
void run_block_embedding(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const EmbeddingArguments*>(args);
  const PanelHeader header = panel_header(a.table);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      Out* out = static_cast<Out*>(a.out) + row * a.tiles.width;
      const int64_t id = a.ids[row];
      if (id < 0 || id >= a.table_rows) {
        __builtin_memset(out, 0, static_cast<size_t>(a.tiles.width) * sizeof(Out));
        continue;
      }
      int part = 0;
      while (part + 1 < header.num_parts && id >= header.parts[part + 1].first_column) ++part;
      const int64_t in_part = id - header.parts[part].first_column;
      PanelSlots slots;
      append_panel(
          slots, a.table, header, header.parts[part].first_panel + in_part / kPanelColumns);
      with_panel_format(slots.of[0].format, [&](auto format) {
        dequantize_column<static_cast<PanelFormat>(format.value)>(
            slots.of[0].panel, in_part % kPanelColumns, a.tiles.width / kPanelBlock, out);
      });
    }
  }
}
