#include "reprise/weights/gguf/header.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "tests/support/weights/gguf_fixture.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights::gguf {
namespace {

Header parse(const std::string& file) {
  return read_header(
      [&](uint64_t offset, std::span<std::byte> dst) {
        // The reader must never ask for bytes that the file does not have.
        if (offset > file.size() || dst.size() > file.size() - offset) std::abort();
        std::memcpy(dst.data(), file.data() + offset, dst.size());
      },
      file.size(),
      "file.gguf");
}

std::string code_of_file(const std::string& file) {
  return code_of([&] { static_cast<void>(parse(file)); });
}

GgufBytes small_file() {
  GgufBytes file;
  file.string("general.architecture", "llama")
      .integer("llama.block_count", 2)
      .real("llama.rope.freq_base", 1e4F)
      .boolean("tokenizer.ggml.add_bos_token", true)
      .strings("tokenizer.ggml.tokens", {"a", "b", "\xe2\x96\x81"})
      .numbers<int32_t>("tokenizer.ggml.token_type", 5, {1, 3, 6})
      .tensor("token_embd.weight", 0, {3, 4}, std::string(48, 'x'))
      .tensor("blk.0.attn_q.weight", 8, {2, 64}, std::string(136, 'y'))
      .tensor("output_norm.weight", 1, {5}, std::string(10, 'z'));
  return file;
}

TEST(GgufHeader, reads_metadata_and_tensors) {
  const std::string bytes = small_file().bytes();
  const Header header = parse(bytes);
  EXPECT_EQ(*header.metadata.string("general.architecture"), "llama");
  EXPECT_EQ(header.metadata.required_integer("llama.block_count", 1, 10), 2);
  EXPECT_EQ(header.metadata.number("llama.rope.freq_base"), 1e4);
  EXPECT_EQ(header.metadata.boolean("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ(header.metadata.strings("tokenizer.ggml.tokens")->at(2), "\xe2\x96\x81");
  EXPECT_EQ(header.metadata.array("tokenizer.ggml.token_type")->number(1), 3);
  ASSERT_EQ(header.tensors.size(), 3u);
  EXPECT_EQ(header.tensors[0].shape, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(header.tensors[1].format, BlockFormat::q8_0);
  EXPECT_EQ(header.tensors[1].bytes, 136u);
  EXPECT_EQ(bytes.substr(header.tensors[1].begin, 136), std::string(136, 'y'));
  EXPECT_EQ(bytes.substr(header.tensors[2].begin, 10), std::string(10, 'z'));
}

TEST(GgufHeader, names_what_is_wrong) {
  GgufBytes old = small_file();
  old.version = 1;
  EXPECT_EQ(code_of_file(old.bytes()), "E_VERSION");
  old.version = 0x03000000;
  EXPECT_EQ(code_of_file(old.bytes()), "E_VERSION");
  EXPECT_EQ(code_of_file("GGUX" + small_file().bytes().substr(4)), "E_MAGIC");
  EXPECT_EQ(code_of_file(""), "E_TRUNCATED");
  EXPECT_EQ(code_of_file(GgufBytes().string("a", "1").string("a", "2").bytes()), "E_DUPLICATE");
  EXPECT_EQ(code_of_file(GgufBytes().key("a", 13, "12345678").bytes()), "E_TYPE");
  EXPECT_EQ(code_of_file(GgufBytes().key("a", 7, "\x02").bytes()), "E_VALUE");
  EXPECT_EQ(
      code_of_file(
          GgufBytes().key("a", 9, GgufBytes::raw(uint32_t{9}) + std::string(64, '\0')).bytes()),
      "E_TYPE");
  EXPECT_EQ(code_of_file(GgufBytes().integer("general.alignment", 24).bytes()), "E_CONFIG");
  const auto with_tensor = [](uint32_t format, const std::vector<uint64_t>& shape) {
    return GgufBytes().tensor("t", format, shape, std::string(64, '\0')).bytes();
  };
  EXPECT_EQ(code_of_file(with_tensor(4, {32})), "E_DTYPE");  // Q4_2, long gone
  EXPECT_EQ(code_of_file(with_tensor(2, {33})), "E_SHAPE");  // no multiple of 32
  EXPECT_EQ(code_of_file(with_tensor(0, {0})), "E_SHAPE");
  EXPECT_EQ(code_of_file(with_tensor(0, {1, 1, 1, 1, 1})), "E_SHAPE");
  EXPECT_EQ(code_of_file(with_tensor(0, {uint64_t{1} << 62, 4})), "E_SHAPE");
  EXPECT_EQ(code_of_file(with_tensor(0, {uint64_t{1} << 62})), "E_SHAPE");
  EXPECT_EQ(code_of_file(with_tensor(0, {17})), "E_TRUNCATED");
  EXPECT_EQ(
      code_of_file(GgufBytes().tensor("t", 0, {1}, "1234").tensor("t", 0, {1}, "1234").bytes()),
      "E_DUPLICATE");
  EXPECT_EQ(
      code_of_file(
          GgufBytes().tensor("t", 0, {16}, "").tensor("u", 0, {8}, std::string(64, '\0')).bytes()),
      "E_OVERLAP");
}

TEST(GgufHeader, refuses_every_file_that_was_cut) {
  const std::string bytes = small_file().bytes();
  const size_t end_of_data = parse(bytes).tensors[2].begin + 10;
  for (size_t size = 0; size < end_of_data; ++size) {
    const std::string code = code_of_file(bytes.substr(0, size));
    ASSERT_TRUE(code == "E_TRUNCATED" || code == "E_SHAPE") << size << ": " << code;
  }
}

// What read_header() promises about an accepted file, checked in another way.
void expect_consistent(const Header& header, size_t file_bytes) {
  std::vector<int> num_owners(file_bytes, 0);
  for (const TensorInfo& tensor : header.tensors) {
    __int128 elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    const BlockSize block = block_size(tensor.format);
    ASSERT_TRUE(elements / block.num_elements * block.bytes == static_cast<__int128>(tensor.bytes));
    ASSERT_EQ(tensor.shape.back() % block.num_elements, 0);
    ASSERT_LE(tensor.begin + tensor.bytes, file_bytes);
    for (uint64_t at = tensor.begin; at < tensor.begin + tensor.bytes; ++at) ++num_owners[at];
  }
  ASSERT_LE(*std::max_element(num_owners.begin(), num_owners.end()), 1);
}

uint64_t odd_number(std::mt19937_64& random) {
  static const std::vector<uint64_t> kNumbers = {0,
                                                 1,
                                                 2,
                                                 8,
                                                 9,
                                                 31,
                                                 32,
                                                 33,
                                                 255,
                                                 65536,
                                                 0x7fffffff,
                                                 0xffffffff,
                                                 uint64_t{1} << 32,
                                                 uint64_t{1} << 61,
                                                 (uint64_t{1} << 63) - 1,
                                                 uint64_t{1} << 63,
                                                 ~uint64_t{0}};
  return kNumbers[random() % kNumbers.size()];
}

// At each byte of the header in turn, unusual numbers of every width are written; after that,
// random changes.
TEST(GgufHeader, accepts_only_consistent_files_after_any_change) {
  std::mt19937_64 random(20261122);
  const std::string valid = small_file().bytes();
  const size_t header_bytes = small_file().header().size();
  int num_accepted = 0;
  int num_refused = 0;
  const auto check = [&](const std::string& file) {
    try {
      const Header header = parse(file);
      expect_consistent(header, file.size());
      ++num_accepted;
    } catch (const FileError& error) {
      ASSERT_TRUE(error.code().starts_with("E_")) << error.what();
      ++num_refused;
    }
  };
  for (size_t at = 0; at < header_bytes; ++at) {
    for (int round = 0; round < 24; ++round) {
      std::string file = valid;
      const uint64_t number = odd_number(random);
      const size_t width = size_t{1} << (random() % 4);
      std::memcpy(file.data() + at, &number, std::min(width, header_bytes - at));
      check(file);
    }
  }
  for (int round = 0; round < 20'000; ++round) {
    std::string file = valid;
    for (uint64_t i = 0; i <= random() % 3; ++i) {
      const size_t at = random() % file.size();
      switch (random() % 4) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file.erase(at, random() % 12);
          break;
        case 2:
          file.insert(at, file.substr(random() % file.size(), random() % 40));
          break;
        default:
          file[at] = static_cast<char>(file[at] ^ (1 << random() % 8));
      }
      if (file.empty()) break;
    }
    check(file);
  }
  // Both outcomes must be common; otherwise the changes test nothing.
  EXPECT_GT(num_accepted, 3'000);
  EXPECT_GT(num_refused, 3'000);
}

}  // namespace
}  // namespace reprise::weights::gguf
