// The panels that one block of the grid multiplies with.

// A panel and the outputs that it computes.
struct PanelSlot {
  const uint8_t* panel;
  PanelFormat format;
  int64_t column;
  int64_t columns;  // at most kPanelColumns
};

// The panels of one block of the grid, and the sums of one row: sums of slot s begin at s *
// kPanelColumns. The last kPanelColumns sums of a row have no slot.
struct PanelSlots {
  PanelSlot of[kMaxPanelSlots];
  int size = 0;
};
constexpr int64_t kPanelSumStride = (kMaxPanelSlots + 1) * kPanelColumns;

inline PanelHeader panel_header(const uint8_t* weight) {
  PanelHeader header;
  __builtin_memcpy(&header, weight, sizeof(header));
  return header;
}

inline void append_panel(PanelSlots& slots,
                         const uint8_t* weight,
                         const PanelHeader& header,
                         int64_t panel) {
  int index = 0;
  while (index + 1 < header.num_parts && panel >= header.parts[index + 1].first_panel) ++index;
  const PanelHeader::Part& part = header.parts[index];
  const int64_t in_part = panel - part.first_panel;
  const int64_t bytes = kPanelColumns * panel_column_bytes(part.format, header.depth);
  slots.of[slots.size++] = {
      .panel = weight + part.offset + in_part * bytes,
      .format = part.format,
      .column = part.first_column + in_part * kPanelColumns,
      .columns = min_of(kPanelColumns, part.columns - in_part * kPanelColumns)};
}

// The offset of block `block` of a panel, which must be the first of a super-block.
inline int64_t chunk_offset(PanelFormat format, int64_t block) {
  return kPanelColumns * panel_column_bytes(format, block * kPanelBlock);
}

// The memory that is read after the blocks before `next` of a panel: the next blocks, or at the end
// the panel that has the same slot in the next block of the grid.
inline const uint8_t* panel_ahead(const PanelSlots& slots, int s, int64_t next, int64_t blocks) {
  const PanelSlot& slot = slots.of[s];
  return next < blocks ? slot.panel + chunk_offset(slot.format, next)
                       : slot.panel + slots.size * chunk_offset(slot.format, blocks);
}
