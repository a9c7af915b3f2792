// How each format of tensor/block_panels.h becomes codes of one byte and float32 scales. Everything
// here is exact, so all kernels that multiply with these codes and scales can agree bit for bit.

enum class CodePlanes : uint8_t { byte, nibble, nibble_one, nibble_two, two, two_one, iq4, fp4 };

// The properties of a format that kernels need at compile time.
struct PanelTraits {
  CodePlanes planes = CodePlanes::nibble;
  // Number of scales of a block: 2 if its halves have scales of their own.
  int parts = 1;
  // Whether a least value is added to all elements.
  bool has_least = false;
  // The code of the value 0, if all blocks have the same one; otherwise 0.
  int offset = 0;

  // Whether codes have all eight bits. Their offset is then 128.
  [[nodiscard]] constexpr bool is_wide() const {
    return planes == CodePlanes::byte || planes == CodePlanes::iq4;
  }
};

constexpr PanelTraits panel_traits(PanelFormat format) {
  switch (format) {
    case PanelFormat::q8_0:
    case PanelFormat::int8_g128:
      return {.planes = CodePlanes::byte, .offset = 128};
    case PanelFormat::q4_0:
      return {.planes = CodePlanes::nibble, .offset = 8};
    case PanelFormat::q5_0:
      return {.planes = CodePlanes::nibble_one, .offset = 16};
    case PanelFormat::iq4_nl:
    case PanelFormat::iq4_xs:
      return {.planes = CodePlanes::iq4, .offset = 128};
    case PanelFormat::mxfp4:
      return {.planes = CodePlanes::fp4, .offset = 12};
    case PanelFormat::nvfp4:
      return {.planes = CodePlanes::fp4, .parts = 2, .offset = 12};
    case PanelFormat::q4_1:
    case PanelFormat::q4_k:
    case PanelFormat::int4_g32:
    case PanelFormat::int4_g128:
      return {.planes = CodePlanes::nibble, .has_least = true};
    case PanelFormat::q5_1:
    case PanelFormat::q5_k:
      return {.planes = CodePlanes::nibble_one, .has_least = true};
    case PanelFormat::q2_k:
      return {.planes = CodePlanes::two, .parts = 2, .has_least = true};
    case PanelFormat::q3_k:
      return {.planes = CodePlanes::two_one, .parts = 2, .offset = 4};
    case PanelFormat::q6_k:
      return {.planes = CodePlanes::nibble_two, .parts = 2, .offset = 32};
    case PanelFormat::int8_rows:  // These are no formats in blocks.
    case PanelFormat::f8e4m3_rows:
    case PanelFormat::f8e4m3_g128:
    case PanelFormat::f8e5m2_rows:
    case PanelFormat::f8e5m2_g128:
    case PanelFormat::f4_g64:
      break;
  }
  return {};
}

// The largest code of formats whose codes have less than eight bits.
constexpr int largest_code(CodePlanes planes) {
  switch (planes) {
    case CodePlanes::two:
      return 3;
    case CodePlanes::two_one:
      return 7;
    case CodePlanes::nibble:
      return 15;
    case CodePlanes::fp4:
      return 24;
    case CodePlanes::nibble_one:
      return 31;
    case CodePlanes::nibble_two:
      return 63;
    case CodePlanes::byte:
    case CodePlanes::iq4:
      break;
  }
  return 255;
}

// The number of groups of a block whose products fit into sums of 16 bits together; a group has two
// products for each of these sums. 0: the instruction set or the format has no such sums. A power
// of two.
constexpr int groups_in_words(PanelFormat format) {
  const PanelTraits traits = panel_traits(format);
  if (!kPanelSumsInWords || traits.is_wide()) return 0;
  const int products = 32767 / (largest_code(traits.planes) * 128);
  int groups = 8 / traits.parts;
  while (2 * groups > products) groups /= 2;
  return groups;
}

template <PanelFormat kFormat>
struct PanelUnpacker {
  static constexpr PanelTraits kTraits = panel_traits(kFormat);
  static constexpr PanelLayout kLayout = panel_layout(kFormat);
  static constexpr int64_t kHeadBytes = kPanelColumns * kLayout.head_bytes;
  static constexpr int64_t kBlockBytes = kPanelColumns * (kLayout.code_bytes + kLayout.scale_bytes);

  // Bit kBit of the codes of group g, from a plane of one bit per group.
  template <int kGroup, int kBit>
  static REPRISE_INLINE Panel::Codes one_bit(const uint8_t* plane) {
    return Panel::bits<kBit - kGroup>(Panel::load(plane), 1 << kBit);
  }
  // Bits kBit and kBit + 1, from a plane of two bits per group.
  template <int kGroup, int kBit>
  static REPRISE_INLINE Panel::Codes two_bits(const uint8_t* plane) {
    return Panel::bits<kBit - kGroup % 4 * 2>(Panel::load(plane + kGroup / 4 * 64), 3 << kBit);
  }
  template <int kGroup>
  static REPRISE_INLINE Panel::Codes nibbles(const uint8_t* plane) {
    const Panel::Codes pairs = Panel::load(plane + kGroup % 4 * 64);
    if constexpr (kGroup < 4) {
      return Panel::low_halves(pairs);
    } else {
      return Panel::high_halves(pairs);
    }
  }

  /// The codes of group kGroup of a block: values + kTraits.offset.
  template <int kGroup>
  static REPRISE_INLINE Panel::Codes codes(const uint8_t* block) {
    constexpr CodePlanes kPlanes = kTraits.planes;
    if constexpr (kPlanes == CodePlanes::byte) {
      return Panel::load(block + kGroup * 64);
    } else if constexpr (kPlanes == CodePlanes::two) {
      return two_bits<kGroup, 0>(block);
    } else if constexpr (kPlanes == CodePlanes::two_one) {
      return Panel::either(two_bits<kGroup, 0>(block), one_bit<kGroup, 2>(block + 128));
    } else if constexpr (kPlanes == CodePlanes::nibble_one) {
      return Panel::either(nibbles<kGroup>(block), one_bit<kGroup, 4>(block + 256));
    } else if constexpr (kPlanes == CodePlanes::nibble_two) {
      return Panel::either(nibbles<kGroup>(block), two_bits<kGroup, 4>(block + 256));
    } else if constexpr (kPlanes == CodePlanes::iq4) {
      return Panel::look_up(kIq4Codes, nibbles<kGroup>(block));
    } else if constexpr (kPlanes == CodePlanes::fp4) {
      return Panel::look_up(kFp4Codes, nibbles<kGroup>(block));
    } else {
      return nibbles<kGroup>(block);
    }
  }

  /// The factors, one per column, that turn codes of part kPart of a block into elements.
  template <int kPart>
  static REPRISE_INLINE Panel::Floats scales(const uint8_t* head, const uint8_t* block) {
    const uint8_t* own = block + kPanelColumns * kLayout.code_bytes;
    if constexpr (kFormat == PanelFormat::int8_g128) {
      return Panel::load_f32(head);
    } else if constexpr (kFormat == PanelFormat::nvfp4) {
      return Panel::times(Panel::load_f32(head), Panel::load_f16(own + kPart * 32));
    } else if constexpr (kFormat == PanelFormat::mxfp4) {
      return Panel::load_powers(own);
    } else if constexpr (kFormat == PanelFormat::int4_g32 || kFormat == PanelFormat::int4_g128) {
      return Panel::load_f16(head);
    } else if constexpr (kFormat == PanelFormat::q2_k) {
      return Panel::times(Panel::load_f16(head), Panel::load_low_half(own + kPart * 16));
    } else if constexpr (kFormat == PanelFormat::q4_k || kFormat == PanelFormat::q5_k) {
      return Panel::times(Panel::load_f16(head), Panel::load_u8(own));
    } else if constexpr (kLayout.super_blocks == 8) {
      return Panel::times(Panel::load_f16(head), Panel::load_i8(own + kPart * 16));
    } else {
      return Panel::load_f16(own);
    }
  }

  /// The least value, which is added to every element of that part.
  template <int kPart>
  static REPRISE_INLINE Panel::Floats least(const uint8_t* head, const uint8_t* block) {
    const uint8_t* own = block + kPanelColumns * kLayout.code_bytes;
    if constexpr (kFormat == PanelFormat::int4_g32 || kFormat == PanelFormat::int4_g128) {
      return Panel::negative(Panel::times(Panel::load_f16(head), Panel::load_u8(head + 32)));
    } else if constexpr (kFormat == PanelFormat::q2_k) {
      return Panel::negative(
          Panel::times(Panel::load_f16(head + 32), Panel::load_high_half(own + kPart * 16)));
    } else if constexpr (kLayout.super_blocks == 8) {
      return Panel::negative(Panel::times(Panel::load_f16(head + 32), Panel::load_u8(own + 16)));
    } else {
      return Panel::load_f16(own + 32);
    }
  }

  // kIq4Values + 128
  alignas(16) static constexpr uint8_t kIq4Codes[16] = {
      1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};
  // kFp4Values + 12
  alignas(16) static constexpr uint8_t kFp4Codes[16] = {
      12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
};

// Calls f<kFormat>() for a format that is known only when the kernel runs. `f` is a lambda that
// takes a Number.
template <typename F>
inline void with_panel_format(PanelFormat format, const F& f) {
  for_numbers<0, kNumPanelFormats>([&](auto number) REPRISE_LAMBDA_INLINE {
    if (static_cast<int>(format) == number.value) f(number);
  });
}
