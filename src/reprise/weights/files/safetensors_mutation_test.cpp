// Mutates valid files in the places where parsers go wrong, and compares each accepted file with a
// second, independent reader of the format.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "reprise/weights/files/safetensors_header.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

using Random = std::mt19937_64;

uint64_t below(Random& random, uint64_t bound) { return random() % bound; }

// Valid JSON numbers that stress the arithmetic, and tokens that are not counts at all.
std::string odd_number(Random& random) {
  static const std::vector<std::string> kNumbers = {"0",
                                                    "1",
                                                    "2",
                                                    "3",
                                                    "4",
                                                    "8",
                                                    "-1",
                                                    "-0",
                                                    "1.0",
                                                    "1e1",
                                                    "1e400",
                                                    "255",
                                                    "65536",
                                                    "4294967295",
                                                    "4294967296",
                                                    "9223372036854775807",
                                                    "9223372036854775808",
                                                    "18446744073709551615",
                                                    "18446744073709551616",
                                                    "null",
                                                    "true",
                                                    "\"4\"",
                                                    "[]",
                                                    "{}",
                                                    "[1]",
                                                    ""};
  return kNumbers[below(random, kNumbers.size())];
}

struct Draft {
  std::string header;
  uint64_t data_bytes = 0;
};

Draft valid_draft(Random& random) {
  static const std::vector<std::pair<std::string, uint64_t>> kTypes = {
      {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"U8", 1}, {"I64", 8}};
  Draft draft;
  draft.header = "{";
  if (below(random, 2) == 0) draft.header += R"("__metadata__":{"format":"pt"},)";
  const uint64_t num_tensors = 1 + below(random, 4);
  for (uint64_t i = 0; i < num_tensors; ++i) {
    const auto& [dtype, element_bytes] = kTypes[below(random, kTypes.size())];
    const uint64_t rows = below(random, 4);
    const uint64_t columns = 1 + below(random, 4);
    const uint64_t end = draft.data_bytes + rows * columns * element_bytes;
    draft.header += "\"t" + std::to_string(i) + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" +
                    std::to_string(rows) + "," + std::to_string(columns) + "],\"data_offsets\":[" +
                    std::to_string(draft.data_bytes) + "," + std::to_string(end) + "]}";
    draft.header += i + 1 < num_tensors ? "," : "}";
    draft.data_bytes = end;
  }
  return draft;
}

void replace_a_number(Random& random, std::string& header) {
  const size_t start = header.find_first_of("0123456789", below(random, header.size()));
  if (start == std::string::npos) return;
  const size_t end = header.find_first_not_of("0123456789", start);
  header.replace(start, end - start, odd_number(random));
}

void repeat_a_slice(Random& random, std::string& header) {
  const size_t begin = below(random, header.size());
  const std::string slice = header.substr(begin, below(random, 60));
  header.insert(below(random, header.size()), slice);
}

void mutate(Random& random, Draft& draft) {
  std::string& header = draft.header;
  switch (below(random, 8)) {
    case 0:
    case 1:
    case 2:
      return replace_a_number(random, header);
    case 3:
      return repeat_a_slice(random, header);
    case 4:
      header[below(random, header.size())] = static_cast<char>(below(random, 256));
      return;
    case 5:
      header.erase(below(random, header.size()), below(random, 10));
      if (header.empty()) header = "{";
      return;
    case 6:
      draft.data_bytes += below(random, 9) - 4;
      return;
    default:
      header.append(below(random, 8), ' ');
      return;
  }
}

// Checks the format's rules a second time by other means: with a JSON tree and one flag per byte of
// data.
bool is_consistent(const std::vector<TensorEntry>& tensors, const Draft& draft) {
  const auto tree = nlohmann::json::parse(draft.header, nullptr, false);
  if (tree.is_discarded() || draft.data_bytes > 1'000'000) return false;
  if (tree.size() != tensors.size() + (tree.contains("__metadata__") ? 1 : 0)) return false;
  std::vector<int> num_owners(draft.data_bytes, 0);
  for (const TensorEntry& tensor : tensors) {
    const auto& node = tree.at(tensor.name);
    if (node.at("shape") != tensor.spec.shape) return false;
    if (node.at("data_offsets") != std::vector<uint64_t>{tensor.begin, tensor.end}) return false;
    __int128 bytes = static_cast<__int128>(dtype_bytes(tensor.spec.dtype));
    for (const int64_t extent : tensor.spec.shape) bytes *= extent;
    if (bytes != static_cast<__int128>(tensor.end) - static_cast<__int128>(tensor.begin))
      return false;
    if (tensor.end > draft.data_bytes) return false;
    for (uint64_t at = tensor.begin; at < tensor.end; ++at) ++num_owners[at];
  }
  return std::all_of(num_owners.begin(), num_owners.end(), [](int owners) { return owners == 1; });
}

TEST(SafetensorsMutation, accepts_only_headers_that_a_second_checker_finds_consistent) {
  Random random(20240607);
  int num_accepted = 0;
  int num_refused = 0;
  for (int round = 0; round < 40'000; ++round) {
    Draft draft = valid_draft(random);
    const uint64_t num_mutations = below(random, 4);
    for (uint64_t i = 0; i < num_mutations; ++i) mutate(random, draft);
    try {
      const std::vector<TensorEntry> tensors =
          parse_safetensors_header(draft.header, draft.data_bytes, "draft");
      ASSERT_TRUE(is_consistent(tensors, draft)) << draft.header << " " << draft.data_bytes;
      ++num_accepted;
    } catch (const FileError& error) {
      ASSERT_NE(num_mutations, 0u) << error.what();
      ASSERT_TRUE(std::string_view(error.code()).starts_with("E_"));
      ++num_refused;
    }
  }
  // Both outcomes must be common; otherwise the mutations test nothing.
  EXPECT_GT(num_accepted, 10'000);
  EXPECT_GT(num_refused, 10'000);
}

}  // namespace
}  // namespace reprise::weights
