#include "reprise/weights/files/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <limits>
#include <vector>

#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kTwoTensors =
    R"({"__metadata__":{"format":"pt"},)"
    R"("a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
    R"("b":{"dtype":"BF16","shape":[3],"data_offsets":[8,14]}})";
constexpr std::string_view kTwoTensorsData("01234567abcdef", 14);

class Safetensors : public ::testing::Test {
 protected:
  std::string code(std::string_view bytes) {
    return code_of([&] { (void)SafetensorsFile(InputFile::open(directory_.write("f", bytes))); });
  }
  std::string code(std::string_view header, std::string_view data) {
    return code(safetensors_bytes(header, data));
  }
  SafetensorsFile open(std::string_view header, std::string_view data) {
    return SafetensorsFile(InputFile::open(directory_.write("f", safetensors_bytes(header, data))));
  }

  TempDirectory directory_;
};

std::string one_tensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return std::string(R"({"t":{"dtype":)")
      .append(dtype)
      .append(R"(,"shape":)")
      .append(shape)
      .append(R"(,"data_offsets":)")
      .append(offsets)
      .append("}}");
}

TEST_F(Safetensors, reads_tensors_and_parts_of_tensors) {
  const SafetensorsFile file = open(kTwoTensors, kTwoTensorsData);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.find("c"), nullptr);
  const TensorEntry* b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->spec, (TensorSpec{DType::bf16, {3}}));
  std::string bytes(4, ' ');
  file.read(*b, 1, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "bcde");
}

TEST_F(Safetensors, accepts_every_supported_element_type) {
  constexpr std::pair<const char*, int> kTypes[] = {{"F64", 8},
                                                    {"F32", 4},
                                                    {"BF16", 2},
                                                    {"F16", 2},
                                                    {"I8", 1},
                                                    {"U8", 1},
                                                    {"I32", 4},
                                                    {"I64", 8}};
  for (const auto& [name, bytes] : kTypes) {
    const std::string header =
        one_tensor('"' + std::string(name) + '"', "[3]", "[0," + std::to_string(3 * bytes) + "]");
    EXPECT_EQ(code(header, std::string(static_cast<size_t>(3 * bytes), 'x')), "accepted") << name;
  }
}

TEST_F(Safetensors, reads_f64_as_float32_also_in_parts) {
  std::vector<double> values(5000);  // more than one chunk of the conversion
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i) / 3;
  values[1] = 1e300;
  const size_t bytes = values.size() * sizeof(double);
  const std::string data =
      "head" + std::string(reinterpret_cast<const char*>(values.data()), bytes);
  const SafetensorsFile file =
      open(R"({"h":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
           R"("t":{"dtype":"F64","shape":[5000],"data_offsets":[4,40004]}})",
           data);
  const TensorEntry* t = file.find("t");
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->spec, (TensorSpec{DType::f32, {5000}}));
  EXPECT_EQ(t->size_bytes(), 20000u);
  for (const size_t first : {size_t{0}, size_t{1}, size_t{4999}}) {
    std::vector<float> read(values.size() - first);
    file.read(*t, first * sizeof(float), std::as_writable_bytes(std::span(read)));
    for (size_t i = 0; i < read.size(); ++i)
      ASSERT_EQ(read[i], static_cast<float>(values[first + i])) << first << " " << i;
  }
}

TEST_F(Safetensors, F06_refuses_f64_of_another_size) {
  for (const char* shape : {"[1]", "[2]", "[4]", "[4611686018427387904]"}) {
    EXPECT_EQ(code(one_tensor("\"F64\"", shape, "[0,12]"), "123456789012"), "E_SHAPE") << shape;
  }
  EXPECT_EQ(code(one_tensor("\"F64\"", "[1]", "[0,9]"), "123456789"), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F64\"", "[1]", "[0,4]"), "1234"), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F64\"", "[2305843009213693952]", "[0,0]"), ""), "E_SHAPE");
}

TEST_F(Safetensors, accepts_empty_files_zero_size_tensors_scalars_and_space_padding) {
  EXPECT_EQ(code("{}", ""), "accepted");
  EXPECT_EQ(code("{}      ", ""), "accepted");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[0,7]", "[0,0]"), ""), "accepted");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[4611686018427387904,0]", "[0,0]"), ""), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[]", "[0,4]"), "1234"), "accepted");
  EXPECT_EQ(code(R"({"z":{"dtype":"U8","shape":[0],"data_offsets":[4,4]},)"
                 R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                 R"("y":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                 "1234"),
            "accepted");
}

TEST_F(Safetensors, F01_refuses_files_without_a_whole_length) {
  EXPECT_EQ(code(""), "E_TRUNCATED");
  EXPECT_EQ(code("1234567"), "E_TRUNCATED");
  EXPECT_EQ(code(length_prefix(0)), "E_TRUNCATED");
  EXPECT_EQ(code("12345678"), "E_TRUNCATED");
}

TEST_F(Safetensors, F02_refuses_header_lengths_beyond_the_file_or_the_limit) {
  for (const uint64_t length : {std::numeric_limits<uint64_t>::max(),
                                std::numeric_limits<uint64_t>::max() - 7,
                                uint64_t{1} << 63,
                                uint64_t{100'000'001},
                                uint64_t{8 + 3},
                                uint64_t{4}}) {
    EXPECT_EQ(code(length_prefix(length) + "{} "), "E_HEADER_SIZE") << length;
  }
  EXPECT_EQ(code(length_prefix(3) + "{} "), "accepted");
}

TEST_F(Safetensors, F02_refuses_a_header_above_the_limit_even_when_the_file_is_that_large) {
  const auto path = directory_.write("f", length_prefix(100'000'001) + "{}");
  std::filesystem::resize_file(path, 100'000'100);  // sparse
  EXPECT_EQ(code_of([&] { (void)SafetensorsFile(InputFile::open(path)); }), "E_HEADER_SIZE");
}

TEST_F(Safetensors, F03_refuses_headers_that_are_not_json) {
  using std::string_view_literals::operator""sv;
  for (const std::string_view header : {" {}"sv,
                                        "[]"sv,
                                        "\xEF\xBB\xBF{}"sv,
                                        "{\"\xFF\":1}"sv,
                                        "{"sv,
                                        "{} x"sv,
                                        "{}\0{}"sv,
                                        "{}\0"sv,
                                        "\0"sv,
                                        "{\"a\":1}"sv,
                                        "{\"a\":null}"sv,
                                        "{\"a\":[]}"sv,
                                        "{\"a\":\"x\"}"sv,
                                        "{\"a\":{}}"sv,
                                        "{\"__metadata__\":{\"a\":1}}"sv,
                                        "{\"__metadata__\":{\"a\":{}}}"sv,
                                        "{\"__metadata__\":\"x\"}"sv}) {
    EXPECT_EQ(code(header, ""), "E_HEADER_JSON") << header;
  }
  const std::string_view whole = kTwoTensors;
  for (size_t cut = 1; cut < whole.size(); ++cut) {
    EXPECT_EQ(code(whole.substr(0, cut), kTwoTensorsData), "E_HEADER_JSON") << cut;
  }
}

TEST_F(Safetensors, F03_refuses_unknown_missing_and_misplaced_members) {
  for (const char* header : {R"({"t":{"dtype":"U8","shape":[1]}})",
                             R"({"t":{"dtype":"U8","data_offsets":[0,1]}})",
                             R"({"t":{"shape":[1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":1}})",
                             R"({"t":{"dtype":["U8"],"shape":[1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":{},"shape":[1],"data_offsets":[0,1]}})",
                             R"({"t":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})"}) {
    EXPECT_EQ(code(header, "x"), "E_HEADER_JSON") << header;
  }
}

TEST_F(Safetensors, F03_stops_at_deep_nesting_at_once) {
  EXPECT_EQ(code(std::string("{\"a\":") + std::string(1'000'000, '['), ""), "E_HEADER_JSON");
  EXPECT_EQ(code(one_tensor("\"U8\"", std::string(1'000'000, '['), "[0,1]"), "x"), "E_SHAPE");
}

TEST_F(Safetensors, F04_refuses_offsets_that_are_reversed_outside_or_malformed) {
  EXPECT_EQ(code(one_tensor("\"U8\"", "[4]", "[4,0]"), "1234"), "E_OFFSET");
  EXPECT_EQ(code(one_tensor("\"U8\"", "[4]", "[0,5]"), "1234"), "E_OFFSET");
  EXPECT_EQ(code(one_tensor("\"U8\"", "[4]", "[1000,1004]"), "1234"), "E_OFFSET");
  EXPECT_EQ(code(one_tensor("\"U8\"", "[4]", "[0,18446744073709551615]"), "1234"), "E_OFFSET");
  for (const char* offsets : {"[]",
                              "[0]",
                              "[0,4,4]",
                              "[0,-4]",
                              "[0,4.0]",
                              "[0,4e0]",
                              "[0,null]",
                              "[0,true]",
                              "[0,[4]]",
                              "[0,18446744073709551616]"}) {
    EXPECT_EQ(code(one_tensor("\"U8\"", "[4]", offsets), "1234"), "E_OFFSET") << offsets;
  }
}

TEST_F(Safetensors, F05_refuses_overlap_gap_and_trailing_bytes) {
  const auto two = [](const char* a, const char* b) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + a +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}";
  };
  EXPECT_EQ(code(two("[0,4]", "[4,8]"), "12345678"), "accepted");
  EXPECT_EQ(code(two("[4,8]", "[0,4]"), "12345678"), "accepted");
  EXPECT_EQ(code(two("[0,4]", "[3,7]"), "12345678"), "E_OVERLAP");
  EXPECT_EQ(code(two("[0,4]", "[0,4]"), "1234"), "E_OVERLAP");
  EXPECT_EQ(code(two("[0,4]", "[5,9]"), "123456789"), "E_GAP");
  EXPECT_EQ(code(two("[1,5]", "[5,9]"), "123456789"), "E_GAP");
  EXPECT_EQ(code(two("[0,4]", "[4,8]"), "123456789"), "E_TRAILING");
  EXPECT_EQ(code("{}", "x"), "E_TRAILING");
}

TEST_F(Safetensors, F06_refuses_shapes_that_overflow_or_disagree_with_the_bytes) {
  EXPECT_EQ(code(one_tensor("\"F32\"", "[4294967296,4294967296]", "[0,4]"), "1234"), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[4611686018427387904]", "[0,0]"), ""), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"U8\"", "[9223372036854775808]", "[0,0]"), ""), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[2]", "[0,4]"), "1234"), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[0]", "[0,4]"), "1234"), "E_SHAPE");
  EXPECT_EQ(code(one_tensor("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "1234"), "E_SHAPE");
}

TEST_F(Safetensors, F07_refuses_unknown_types_and_extents_that_are_not_counts) {
  for (const char* dtype : {"\"F8_E3M4\"", "\"f32\"", "\"\"", "\"F4\"", "\"bool\""}) {
    EXPECT_EQ(code(one_tensor(dtype, "[1]", "[0,1]"), "x"), "E_DTYPE") << dtype;
  }
  for (const char* shape : {"[-1]",
                            "[1.0]",
                            "[1e0]",
                            "[null]",
                            "[\"1\"]",
                            "[true]",
                            "[{}]",
                            "1",
                            "\"1\"",
                            "null",
                            "[18446744073709551616]"}) {
    const std::string found = code(one_tensor("\"U8\"", shape, "[0,1]"), "x");
    EXPECT_TRUE(found == "E_SHAPE" || found == "E_HEADER_JSON") << shape << " " << found;
    if (shape[0] == '[') {
      EXPECT_EQ(found, "E_SHAPE") << shape;
    }
  }
}

TEST_F(Safetensors, F08_refuses_repeated_names_at_every_level) {
  constexpr std::string_view kEntry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  const std::string entry(kEntry);
  EXPECT_EQ(code("{\"a\":" + entry + ",\"a\":" + entry + "}", ""), "E_DUPLICATE");
  EXPECT_EQ(code("{\"a\":" + entry + ",\"\\u0061\":" + entry + "}", ""), "E_DUPLICATE");
  EXPECT_EQ(code(R"({"__metadata__":{},"__metadata__":{}})", ""), "E_DUPLICATE");
  EXPECT_EQ(code(R"({"__metadata__":{"a":"1","a":"2"}})", ""), "E_DUPLICATE");
  EXPECT_EQ(code(R"({"t":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", ""),
            "E_DUPLICATE");
}

TEST_F(Safetensors, F09_refuses_data_cut_at_any_byte) {
  const std::string whole = safetensors_bytes(kTwoTensors, kTwoTensorsData);
  for (size_t missing = 1; missing <= kTwoTensorsData.size(); ++missing) {
    EXPECT_EQ(code(whole.substr(0, whole.size() - missing)), "E_TRUNCATED") << missing;
  }
}

TEST_F(Safetensors, F10_reports_a_file_that_shrinks_after_it_was_opened) {
  const SafetensorsFile file = open(kTwoTensors, kTwoTensorsData);
  std::filesystem::resize_file(directory_.path() / "f", 8 + kTwoTensors.size() + 10);
  std::string bytes(6, ' ');
  file.read(*file.find("a"), 0, std::as_writable_bytes(std::span(bytes).first(6)));
  EXPECT_EQ(bytes, "012345");
  const std::string message =
      message_of([&] { file.read(*file.find("b"), 0, std::as_writable_bytes(std::span(bytes))); });
  EXPECT_THAT(message, HasSubstr("E_TRUNCATED"));
  EXPECT_THAT(message, HasSubstr(": b: "));
}

TEST_F(Safetensors, opens_regular_files_only_and_never_waits) {
  EXPECT_EQ(code_of([&] { (void)InputFile::open(directory_.path()); }), "E_NOT_REGULAR");
  EXPECT_EQ(code_of([&] { (void)InputFile::open(directory_.path() / "none"); }), "E_MISSING");
  EXPECT_EQ(code_of([&] { (void)InputFile::open("/dev/null"); }), "E_NOT_REGULAR");
  const auto pipe = directory_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(code_of([&] { (void)InputFile::open(pipe); }), "E_NOT_REGULAR");
}

TEST_F(Safetensors, keeps_control_characters_of_a_hostile_name_out_of_messages) {
  const std::string header = R"({"\u001b[31m\u0000)" + std::string(1000, 'x') +
                             R"(":{"dtype":"U8","shape":[1],)" + R"("data_offsets":[0,2]}})";
  const std::string message = message_of([&] { (void)open(header, "12"); });
  EXPECT_THAT(message, HasSubstr("E_SHAPE"));
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 400u);
}

TEST_F(Safetensors, stays_usable_after_a_move) {
  SafetensorsFile first = open(kTwoTensors, kTwoTensorsData);
  const SafetensorsFile second = std::move(first);
  std::string bytes(6, ' ');
  second.read(*second.find("b"), 0, std::as_writable_bytes(std::span(bytes)));
  EXPECT_EQ(bytes, "abcdef");
}

}  // namespace
}  // namespace reprise::weights
