#include "reprise/weights/packed_copy/packed_index.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

namespace reprise::weights {
namespace {

PackedIndex example() {
  PackedIndex index{
      .key = "model=/models/tiny\nfile=a.gguf: 3 bytes\n",
      .entries = {{.name = "embed.weight", .plan = 7, .bytes = 10'000, .checksum = 1},
                  {.name = "norm.weight", .plan = 8, .bytes = 12, .checksum = 2},
                  {.name = "lm_head.weight", .plan = 9, .bytes = 4096, .checksum = 3}}};
  index.lay_out();
  return index;
}

uint64_t file_bytes_of(const PackedIndex& index) {
  return index.entries.back().offset + index.entries.back().bytes;
}

struct Parsed {
  std::string refusal;
  PackedIndex index;
};

Parsed parse(std::string_view text, uint64_t file_bytes) {
  Parsed parsed;
  PackedHeader header;
  parsed.refusal = parse_packed_header(text.substr(0, kPackedHeaderBytes), file_bytes, header);
  if (!parsed.refusal.empty()) return parsed;
  const std::string_view index = text.substr(kPackedHeaderBytes, header.index_bytes);
  parsed.refusal = parse_packed_index(header, index, parsed.index);
  return parsed;
}

/// Writes matching checksums, as a forger of a file would do.
void sign(std::string& text) {
  const auto put = [&](size_t offset, std::string_view signed_bytes) {
    const uint64_t sum = packed_checksum(std::as_bytes(std::span(signed_bytes)));
    std::memcpy(text.data() + offset, &sum, sizeof sum);
  };
  const std::string index = text.substr(kPackedHeaderBytes);
  const uint64_t index_bytes = index.size();
  std::memcpy(text.data() + 16, &index_bytes, sizeof index_bytes);
  put(24, index);
  put(kPackedHeaderBytes - 8, std::string(text.substr(0, kPackedHeaderBytes - 8)));
}

void expect_consistent(const PackedIndex& index, uint64_t file_bytes) {
  uint64_t end = kPackedHeaderBytes;
  for (const PackedEntry& entry : index.entries) {
    EXPECT_EQ(entry.offset % kPackedAlignment, 0u);
    EXPECT_GE(entry.offset, end);
    ASSERT_LE(entry.offset, file_bytes);
    EXPECT_LE(entry.bytes, file_bytes - entry.offset);
    end = entry.offset + entry.bytes;
  }
}

TEST(PackedIndex, parses_what_it_prints) {
  const PackedIndex index = example();
  const Parsed parsed = parse(index.print(), file_bytes_of(index));
  EXPECT_EQ(parsed.refusal, "");
  EXPECT_EQ(parsed.index, index);
}

TEST(PackedIndex, refuses_every_flipped_bit_and_every_shorter_text) {
  const PackedIndex index = example();
  const std::string text = index.print();
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string damaged = text;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    EXPECT_NE(parse(damaged, file_bytes_of(index)).refusal, "") << bit;
  }
  for (size_t bytes = 0; bytes < text.size(); ++bytes) {
    EXPECT_NE(parse(text.substr(0, bytes), file_bytes_of(index)).refusal, "") << bytes;
  }
}

TEST(PackedIndex, refuses_a_file_of_another_length) {
  const PackedIndex index = example();
  for (const int64_t more : {-1, 1, -4096, 4096}) {
    const uint64_t bytes = file_bytes_of(index) + static_cast<uint64_t>(more);
    EXPECT_NE(parse(index.print(), bytes).refusal, "") << more;
  }
}

TEST(PackedIndex, believes_no_offset_or_length_of_a_forged_file) {
  std::mt19937_64 random(3);
  const PackedIndex index = example();
  const std::string text = index.print();
  const uint64_t file_bytes = file_bytes_of(index);
  size_t num_accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string forged = text;
    const size_t at = kPackedHeaderBytes + random() % (forged.size() - kPackedHeaderBytes);
    switch (random() % 4) {
      case 0:
        forged[at] = static_cast<char>(random());
        break;
      case 1:
        forged.resize(at);
        break;
      case 2:
        forged.insert(at, 1 + random() % 32, static_cast<char>(random()));
        break;
      default: {
        const uint64_t number = random() >> random() % 64;
        std::memcpy(forged.data() + std::min(at, forged.size() - 8), &number, sizeof number);
      }
    }
    sign(forged);
    const Parsed parsed = parse(forged, file_bytes);
    if (!parsed.refusal.empty()) continue;
    ++num_accepted;  // another name, key or checksum
    expect_consistent(parsed.index, file_bytes);
  }
  EXPECT_GT(num_accepted, 0u);
}

TEST(PackedIndex, refuses_a_length_with_which_offsets_begin_again_at_0) {
  PackedIndex index = example();
  index.entries[0].bytes = uint64_t{0} - kPackedAlignment;
  index.lay_out();
  EXPECT_LT(index.entries[1].offset, index.entries[0].offset);
  EXPECT_NE(parse(index.print(), file_bytes_of(index)).refusal, "");
}

TEST(PackedIndex, refuses_two_weights_of_one_name) {
  PackedIndex index = example();
  index.entries[1].name = index.entries[0].name;
  index.lay_out();
  EXPECT_NE(parse(index.print(), file_bytes_of(index)).refusal, "");
}

}  // namespace
}  // namespace reprise::weights
