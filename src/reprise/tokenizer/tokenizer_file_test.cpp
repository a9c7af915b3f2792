// Each corrupt or hostile tokenizer.json gives a named error, never a crash, a hang or a guess.

#include "reprise/tokenizer/tokenizer_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "reprise/base/error.h"
#include "reprise/tokenizer/text_file.h"
#include "reprise/tokenizer/tokenizer.h"
#include "tests/support/source_dir.h"

namespace reprise::tokenizer {
namespace {

struct Failure {
  std::string code = "none";
  std::string field;
};

Failure failure_of(std::string_view text) {
  try {
    static_cast<void>(Tokenizer::from_json(text));
  } catch (const FileError& error) {
    return {error.code(), error.field()};
  }
  return {};
}

std::string fixture(std::string_view kind) {
  return read_text_file(
      fmt::format("{}/tests/goldens/tokenizers/{}.tokenizer.json", source_dir(), kind));
}

/// A small valid file with `patch` (RFC 7386) applied.
std::string patched(std::string_view patch) {
  Json json =
      parse_json(R"({"version":"1.0","added_tokens":[{"id":4,"content":"<s>","special":true}],
    "normalizer":null,"pre_tokenizer":null,"post_processor":null,"decoder":null,
    "model":{"type":"BPE","unk_token":null,"vocab":{"a":0,"b":1,"ab":2,"c":3},"merges":[["a","b"]]}})",
                 "test");
  json.merge_patch(parse_json(patch, "patch"));
  return json.dump();
}

void expect_failure(std::string_view patch, std::string_view code, std::string_view field) {
  const Failure failure = failure_of(patched(patch));
  EXPECT_EQ(failure.code, code) << patch;
  EXPECT_EQ(failure.field, field) << patch;
}

TEST(TokenizerFile, loads_the_sound_file_that_the_corpus_starts_from) {
  EXPECT_EQ(failure_of(patched("{}")).code, "none");
}

TEST(TokenizerFile, names_a_file_cut_at_any_sixteenth) {
  const std::string text = fixture("qwen2");
  for (size_t part = 0; part < 16; ++part) {
    EXPECT_EQ(failure_of(text.substr(0, text.size() * part / 16)).code, "E_TRUNCATED") << part;
  }
}

TEST(TokenizerFile, refuses_a_file_above_the_size_limit_without_reading_it) {
  const std::filesystem::path dir = testing::TempDir() + "tokenizer_too_large";
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "tokenizer.json") << "{";
  std::filesystem::resize_file(dir / "tokenizer.json", size_t{300} << 20);  // sparse
  try {
    static_cast<void>(Tokenizer::load(dir));
    ADD_FAILURE() << "no error";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_TOKENIZER");
  }
  std::filesystem::remove_all(dir);
}

TEST(TokenizerFile, refuses_a_missing_file) {
  EXPECT_THROW(static_cast<void>(Tokenizer::load("no/such/dir")), FileError);
}

TEST(TokenizerFile, refuses_bad_vocabularies) {
  expect_failure(R"({"model":{"vocab":{"x":1}}})", "E_TOKENIZER", "/model/vocab");  // id of "b"
  expect_failure(R"({"model":{"vocab":{"x":16000000}}})", "E_TOKENIZER", "/model/vocab");
  for (const char* vocab :
       {R"({"x":99999999999})", R"({"x":-1})", R"({"x":1.5})", R"({"x":"1"})", R"(["a"])"}) {
    const std::string text =
        std::string(R"({"model":{"type":"BPE","vocab":)") + vocab + R"(,"merges":[]}})";
    EXPECT_EQ(failure_of(text).code, "E_TOKENIZER") << vocab;
  }
  EXPECT_EQ(failure_of(R"({"model":{"type":"BPE","vocab":{},"merges":[]}})").code, "E_TOKENIZER");
  EXPECT_EQ(failure_of(R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})").code,
            "E_TOKENIZER");
}

TEST(TokenizerFile, refuses_bad_merges_and_names_them) {
  expect_failure(R"({"model":{"merges":[["a","b"],["a","z"]]}})", "E_TOKENIZER", "/model/merges/1");
  expect_failure(R"({"model":{"merges":["b c"]}})", "E_TOKENIZER", "/model/merges/0");  // no "bc"
  expect_failure(R"({"model":{"merges":["ab"]}})", "E_TOKENIZER", "/model/merges/0");
  expect_failure(R"({"model":{"merges":["a b c"]}})", "E_TOKENIZER", "/model/merges/0");
  expect_failure(R"({"model":{"merges":[["a"]]}})", "E_TOKENIZER", "/model/merges/0");
  expect_failure(R"({"model":{"merges":[["a","b","c"]]}})", "E_TOKENIZER", "/model/merges/0");
  EXPECT_EQ(failure_of(patched(R"({"model":{"merges":[[1,2]]}})")).code, "E_TOKENIZER");
  EXPECT_EQ(failure_of(patched(R"({"model":{"merges":["#version: 0.2","a b"]}})")).code, "none");
}

TEST(TokenizerFile, refuses_bad_added_tokens) {
  const auto with = [](std::string_view token) {
    return fmt::format(R"({{"added_tokens":[{}]}})", token);
  };
  expect_failure(with(R"({"id":4,"content":""})"), "E_TOKENIZER", "/added_tokens/0/content");
  expect_failure(with(R"({"id":-4,"content":"x"})"), "E_TOKENIZER", "/added_tokens/0/id");
  expect_failure(with(R"({"id":4})"), "E_TOKENIZER", "/added_tokens/0");
  expect_failure(with(R"({"id":1,"content":"x"})"), "E_TOKENIZER", "/added_tokens");  // id of "b"
  expect_failure(with(R"({"id":9,"content":"a"})"), "E_TOKENIZER", "/added_tokens");  // "a" is 0
  expect_failure(with(R"({"id":9999999,"content":"x"})"), "E_TOKENIZER", "/added_tokens");
  expect_failure(
      with(R"({"id":4,"content":"x"},{"id":4,"content":"y"})"), "E_TOKENIZER", "/added_tokens/1");
  expect_failure(
      with(R"({"id":4,"content":"x"},{"id":5,"content":"x"})"), "E_TOKENIZER", "/added_tokens/1");
  expect_failure(with(fmt::format(R"({{"id":4,"content":"{}"}})", std::string(600, 'x'))),
                 "E_TOKENIZER",
                 "/added_tokens/0/content");
}

TEST(TokenizerFile, locates_patterns_that_explode_refer_back_or_do_not_compile) {
  for (const char* pattern : {"(a|a)*b", R"((a)\\1)", "(", "[a"}) {
    expect_failure(
        fmt::format(
            R"({{"pre_tokenizer":{{"type":"Split","pattern":{{"Regex":"{}"}},"behavior":"Isolated"}}}})",
            pattern),
        "E_REGEX",
        "/pre_tokenizer/pattern/Regex");
  }
}

TEST(TokenizerFile, refuses_sequences_nested_too_deep) {
  const auto nested = [](size_t depth) {
    std::string text = R"({"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"normalizer":)";
    for (size_t i = 0; i < depth; ++i) text += R"({"type":"Sequence","normalizers":[)";
    text += R"({"type":"NFC"})";
    for (size_t i = 0; i < depth; ++i) text += "]}";
    return text + "}";
  };
  EXPECT_EQ(failure_of(nested(2)).code, "none");
  EXPECT_EQ(failure_of(nested(20)).code, "E_DEPTH");
  EXPECT_EQ(failure_of(nested(10'000)).code, "E_DEPTH");
}

TEST(TokenizerFile, names_component_types_it_does_not_know) {
  expect_failure(R"({"normalizer":{"type":"Precompiled","precompiled_charsmap":"%%"}})",
                 "E_TOKENIZER",
                 "/normalizer/precompiled_charsmap");
  expect_failure(R"({"normalizer":{"type":"Precompiled"}})", "E_TOKENIZER", "/normalizer");
  expect_failure(R"({"normalizer":{"type":"Nmt"}})", "E_TOKENIZER", "/normalizer/type");
  expect_failure(
      R"({"pre_tokenizer":{"type":"UnicodeScripts"}})", "E_TOKENIZER", "/pre_tokenizer/type");
  expect_failure(
      R"({"post_processor":{"type":"BertProcessing"}})", "E_TOKENIZER", "/post_processor/type");
  expect_failure(R"({"decoder":{"type":"CTC"}})", "E_TOKENIZER", "/decoder/type");
  expect_failure(
      R"({"model":{"type":"WordPiece","unk_token":"[UNK]"}})", "E_TOKENIZER", "/model/unk_token");
  expect_failure(
      R"({"model":{"type":"WordPiece","unk_token":"a","max_input_chars_per_word":1000000}})",
      "E_TOKENIZER",
      "/model/max_input_chars_per_word");
  expect_failure(R"({"model":{"type":"WordLevel"}})", "E_TOKENIZER", "/model/type");
  expect_failure(R"({"normalizer":{}})", "E_TOKENIZER", "/normalizer");
  expect_failure(R"({"normalizer":7})", "E_TOKENIZER", "/normalizer");
}

TEST(TokenizerFile, refuses_bad_tokens_and_scores_of_unigram_models) {
  const auto failure_with = [](std::string_view vocab, std::string_view rest) {
    return failure_of(fmt::format(R"({{"model":{{"type":"Unigram","vocab":{}{}}}}})", vocab, rest));
  };
  const std::string sound = R"([["<unk>",0.0],["a",-1],["b",-2.5e-1]])";
  EXPECT_EQ(failure_with(sound, R"(,"unk_id":0)").code, "none");
  EXPECT_EQ(failure_of(fmt::format(R"({{"model":{{"vocab":{},"unk_id":0}}}})", sound)).code, "none")
      << "without a type, the list of scores tells it";
  EXPECT_EQ(failure_with(sound, "").field, "/model");
  EXPECT_EQ(failure_with(sound, R"(,"unk_id":null)").field, "/model");
  EXPECT_EQ(failure_with(sound, R"(,"unk_id":3)").field, "/model/unk_id");
  EXPECT_EQ(failure_with(sound, R"(,"unk_id":-1)").field, "/model/unk_id");
  EXPECT_EQ(failure_with(sound, R"(,"unk_id":0,"byte_fallback":1)").field, "/model/byte_fallback");
  for (const auto& [vocab, field] : std::initializer_list<std::pair<std::string, const char*>>{
           {"[]", "/model/vocab"},
           {R"({"a":0})", "/model/vocab"},
           {R"([["a",0],["a",0]])", "/model/vocab"},
           {R"([["a",0],["b"]])", "/model/vocab/1"},
           {R"([["a",0,1]])", "/model/vocab/0"},
           {R"([["a",null]])", "/model/vocab/0/1"},
           {R"([["a","0"]])", "/model/vocab/0/1"},
           {R"([["a",01]])", "/model/vocab/0/1"},
           {R"([["a",1e999]])", "/model/vocab/0/1"},
           {fmt::format(R"([["{}",0]])", std::string(1025, 'a')), "/model/vocab/0"}}) {
    const Failure failure = failure_with(vocab, R"(,"unk_id":0)");
    EXPECT_EQ(failure.code, "E_TOKENIZER") << vocab;
    EXPECT_EQ(failure.field, field) << vocab;
  }
  for (const char* vocab : {"[7]", "[[7,0]]", "[[null,0]]", "[[]]", "7"}) {
    EXPECT_EQ(failure_with(vocab, R"(,"unk_id":0)").code, "E_TOKENIZER") << vocab;
  }
}

TEST(TokenizerFile, refuses_model_options_that_would_change_the_ids) {
  expect_failure(R"({"model":{"dropout":0.1}})", "E_TOKENIZER", "/model/dropout");
  expect_failure(R"({"model":{"continuing_subword_prefix":"##"}})",
                 "E_TOKENIZER",
                 "/model/continuing_subword_prefix");
  expect_failure(
      R"({"model":{"end_of_word_suffix":"</w>"}})", "E_TOKENIZER", "/model/end_of_word_suffix");
  expect_failure(R"({"model":{"unk_token":"?"}})", "E_TOKENIZER", "/model/unk_token");
  expect_failure(R"({"model":{"byte_fallback":"yes"}})", "E_TOKENIZER", "/model/byte_fallback");
  EXPECT_EQ(
      failure_of(
          patched(
              R"({"model":{"dropout":0.0,"continuing_subword_prefix":"","end_of_word_suffix":""}})"))
          .code,
      "none");
}

TEST(TokenizerFile, puts_special_tokens_around_and_between_two_texts) {
  const auto pair_of = [](std::string_view pair) -> EncodedPair {
    return Tokenizer::from_json(patched(fmt::format(
                                    R"({{"post_processor":{{"type":"TemplateProcessing",
                       "single":[{{"Sequence":{{"id":"A","type_id":0}}}}],"pair":{},
                       "special_tokens":{{"<s>":{{"ids":[4]}}}}}}}})",
                                    pair)))
        .encode_pair("", "");
  };
  const auto text = [](char name, int type) {
    return fmt::format(R"({{"Sequence":{{"id":"{}","type_id":{}}}}})", name, type);
  };
  const auto token = [](int type) {
    return fmt::format(R"({{"SpecialToken":{{"id":"<s>","type_id":{}}}}})", type);
  };
  const auto list = [](const std::vector<std::string>& pieces) {
    return fmt::format("[{}]", fmt::join(pieces, ","));
  };
  const EncodedPair bert =
      pair_of(list({token(0), text('A', 0), token(0), text('B', 1), token(1)}));
  EXPECT_EQ(bert.ids, (std::vector<int32_t>{4, 4, 4}));
  EXPECT_EQ(bert.second_begin, 2U);  // after the token in the middle
  const EncodedPair early =
      pair_of(list({token(0), text('A', 0), token(0), token(1), text('B', 1)}));
  EXPECT_EQ(early.second_begin, 2U);
  const EncodedPair roberta = pair_of(list({token(0), text('A', 0), token(0), text('B', 0)}));
  EXPECT_FALSE(roberta.second_begin.has_value());
  for (const std::string& other : {list({text('B', 0), text('A', 1)}),
                                   list({text('A', 0), text('B', 1), token(0)}),
                                   list({text('A', 1), text('B', 1)}),
                                   list({text('A', 0), text('B', 2)}),
                                   list({text('A', 0)})}) {
    EXPECT_THROW((void)pair_of(other), InvalidArgument) << other;
  }
}

TEST(TokenizerFile, puts_the_tokens_of_roberta_around_and_between_texts) {
  const auto with = [](std::string_view members) {
    return patched(
        fmt::format(R"({{"post_processor":{{"type":"RobertaProcessing",{}}}}})", members));
  };
  const Tokenizer tokenizer = Tokenizer::from_json(
      with(R"("sep":["</s>",3],"cls":["<s>",4],"trim_offsets":true,"add_prefix_space":false)"));
  EXPECT_EQ(tokenizer.encode(""), (std::vector<int32_t>{4, 3}));
  const EncodedPair pair = tokenizer.encode_pair("", "");
  EXPECT_EQ(pair.ids, (std::vector<int32_t>{4, 3, 3, 3}));
  EXPECT_FALSE(pair.second_begin.has_value());
  for (const char* members : {R"("sep":["</s>",3])",
                              R"("sep":["</s>",3],"cls":["<s>"])",
                              R"("sep":["</s>",77],"cls":["<s>",4])",
                              R"("sep":["</s>",-1],"cls":["<s>",4])",
                              R"("sep":3,"cls":["<s>",4])"}) {
    EXPECT_EQ(failure_of(with(members)).code, "E_TOKENIZER") << members;
  }
}

TEST(TokenizerFile, refuses_templates_that_point_nowhere) {
  const auto with = [](std::string_view single, std::string_view tokens) {
    return fmt::format(
        R"({{"post_processor":{{"type":"TemplateProcessing","single":{},"special_tokens":{}}}}})",
        single,
        tokens);
  };
  constexpr std::string_view kText = R"({"Sequence":{"id":"A","type_id":0}})";
  constexpr std::string_view kStart = R"({"SpecialToken":{"id":"<s>","type_id":0}})";
  EXPECT_EQ(
      failure_of(patched(with(fmt::format("[{},{}]", kStart, kText), R"({"<s>":{"ids":[4]}})")))
          .code,
      "none");
  for (const auto& [single, tokens] : std::vector<std::pair<std::string, std::string>>{
           {fmt::format("[{},{}]", kStart, kText), "{}"},
           {fmt::format("[{},{}]", kStart, kText), R"({"<s>":{"ids":[77]}})"},
           {fmt::format("[{},{}]", kText, kText), "{}"},
           {"[]", "{}"},
           {R"([{"Sequence":{"id":"B"}}])", "{}"}}) {
    EXPECT_EQ(failure_of(patched(with(single, tokens))).code, "E_TOKENIZER") << single << tokens;
  }
}

TEST(TokenizerFile, refuses_documents_that_are_not_the_right_shape) {
  for (const char* text : {"[]",
                           "7",
                           "\"x\"",
                           "{}x",
                           "{}",
                           R"({"model":{}})",
                           R"({"model":null})",
                           "nul",
                           R"({"model":{"type":"BPE","vocab":{"a":0}}})",
                           "\xEF\xBB\xBF{}",
                           R"({"version":1,"version":2})"}) {
    EXPECT_EQ(failure_of(text).code, "E_TOKENIZER") << text;
  }
}

TEST(TokenizerFile, survives_random_damage_with_a_file_error_or_a_working_tokenizer) {
  std::mt19937 random(9);
  for (const char* kind : {"llama3", "mistral", "falcon"}) {
    const std::string sound = fixture(kind);
    // The bytes that matter are outside of the vocabulary: before and after the model.
    const size_t model = sound.find("\"model\"");
    for (int round = 0; round < 150; ++round) {
      std::string text = sound;
      for (unsigned i = 0; i < 1 + random() % 3; ++i) {
        const size_t range = round % 3 == 0 ? text.size() : model + 200;
        const size_t at = random() % range;
        switch (random() % 3) {
          case 0:
            text[at] = static_cast<char>(random());
            break;
          case 1:
            text.erase(at, 1 + random() % 8);
            break;
          default:
            text.insert(at, std::string_view("{}[]\",:0\\a").substr(random() % 10, 1));
        }
      }
      try {
        const Tokenizer tokenizer = Tokenizer::from_json(text);
        static_cast<void>(
            tokenizer.decode(tokenizer.encode("It's <s> 12 <|im_end|> é😀\n  x"), false));
      } catch (const FileError& error) {
        EXPECT_FALSE(error.code().empty());
      }
    }
  }
}

}  // namespace
}  // namespace reprise::tokenizer
