// Columns [begin, end) of one row, which belong to one module. `b` is the matrix of the adapter.
template <typename T>
inline void lora_expand_columns(const LoraExpandArguments& a,
                                const T* y,
                                const float* shrunk,
                                const T* b,
                                T* out,
                                int64_t begin,
                                int64_t end) {
  for (int64_t i = begin; i < end; i += kLanes) {
    const int count = lanes_at(i, end);
    Vec total = load_some(y + i, count);
    for (int64_t j = 0; j < a.rank; ++j) {
      total = fma(broadcast(shrunk[j]), load_some(b + j * a.tiles.width + i, count), total);
    }
    store_some(out + i, total, count);
  }
}

template <typename T>
void run_lora_expand(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LoraExpandArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* y = static_cast<const T*>(a.y) + row * a.y_stride;
      T* out = static_cast<T*>(a.out) + row * width;
      const int32_t slot = a.slots[row];
      if (slot < 0) {
        for (int64_t i = tile.column_begin; y != out && i < tile.column_end; ++i) out[i] = y[i];
        continue;
      }
      const T* b = static_cast<const T*>(a.b) + slot * a.rank * width;
      const float* shrunk = a.shrunk + row * a.modules * a.rank;
      int64_t column = tile.column_begin;
      for (int64_t module = 0; module < a.modules; ++module) {
        // The last module has all remaining columns, so every column is written.
        const bool is_last = module + 1 == a.modules;
        const int64_t end = is_last ? tile.column_end : min_of(a.ends[module], tile.column_end);
        lora_expand_columns<T>(a, y, shrunk + module * a.rank, b, out, column, end);
        column = max_of(column, end);
      }
    }
  }
}
