#include "reprise/structured_output/answer_constraint.h"

#include <gtest/gtest.h>

#include <string>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

/// A vocabulary of all single bytes, some longer tokens, and the end.
VocabularyBytes bytes_and_words() {
  VocabularyBytes vocabulary;
  for (int byte = 0; byte < 256; ++byte) vocabulary.tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* word : {"aaaaaaaa", "aaa\"", "\"}", "a\"}", "{\"v\": \""}) {
    vocabulary.tokens.emplace_back(word);
  }
  vocabulary.tokens.emplace_back();
  vocabulary.end_token_ids = {static_cast<int32_t>(vocabulary.tokens.size()) - 1};
  return vocabulary;
}

int32_t token(const VocabularyBytes& vocabulary, const std::string& text) {
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id] == text) return static_cast<int32_t>(id);
  }
  return -1;
}

class Answer {
 public:
  Answer(OutputSpec::Kind kind, const std::string& spec) : vocabulary_(bytes_and_words()) {
    backend_ = create_grammar_backend(vocabulary_);
    WorkLimit limit;
    constraint_ = backend_->compile({.kind = kind, .text = spec}, limit)->start();
  }

  bool allows(const std::string& text) {
    return contains(constraint_->allowed_tokens(), token(vocabulary_, text));
  }
  /// Takes the text token by token; each mask must allow the next token.
  bool take(const std::string& text) {
    return allows(text) && constraint_->accept(token(vocabulary_, text));
  }
  bool take_bytes(const std::string& text) {
    for (const char byte : text) {
      if (!take(std::string(1, byte))) return false;
    }
    return true;
  }
  bool is_complete() { return constraint_->is_complete(); }

 private:
  VocabularyBytes vocabulary_;
  std::unique_ptr<GrammarBackend> backend_;
  std::unique_ptr<TokenConstraint> constraint_;
};

std::string of_text(const std::string& rules) {
  return R"({"type": "object", "properties": {"v": {"type": "string", )" + rules +
         R"(}}, "required": ["v"]})";
}

TEST(AnswerConstraint, counts_a_long_text_to_its_end) {
  for (const int most : {500, 65535}) {
    Answer answer(OutputSpec::Kind::json_schema,
                  of_text(R"("maxLength": )" + std::to_string(most)));
    ASSERT_TRUE(answer.take("{\"v\": \""));
    for (int i = 0; i + 8 <= most - 4; i += 8) ASSERT_TRUE(answer.take("aaaaaaaa")) << i;
    EXPECT_FALSE(answer.allows("aaaaaaaa"));
    EXPECT_TRUE(answer.allows("aaa\""));
    const int left = most - (most - 4) / 8 * 8;
    for (int i = 0; i < left; ++i) ASSERT_TRUE(answer.take("a")) << i;
    EXPECT_FALSE(answer.allows("a"));
    EXPECT_FALSE(answer.allows("a\"}"));
    EXPECT_FALSE(answer.allows("\\"));
    ASSERT_TRUE(answer.take("\"}"));
    EXPECT_TRUE(answer.is_complete());
  }
}

TEST(AnswerConstraint, holds_a_text_open_until_it_is_long_enough) {
  Answer answer(OutputSpec::Kind::json_schema, of_text(R"("minLength": 3)"));
  ASSERT_TRUE(answer.take("{\"v\": \""));
  EXPECT_FALSE(answer.allows("\"}"));
  EXPECT_TRUE(answer.allows("aaa\""));
  EXPECT_FALSE(answer.allows("a\"}"));
  ASSERT_TRUE(answer.take_bytes("\xC3\xA4\\n"));
  EXPECT_FALSE(answer.allows("\""));
  EXPECT_TRUE(answer.allows("a\"}"));
}

TEST(AnswerConstraint, keeps_items_apart) {
  Answer answer(OutputSpec::Kind::json_schema,
                R"({"type": "array", "items": {"type": "string"}, "uniqueItems": true})");
  ASSERT_TRUE(answer.take_bytes("[\"aaa\", \""));
  EXPECT_FALSE(answer.allows("aaa\""));
  ASSERT_TRUE(answer.take_bytes("aa"));
  EXPECT_TRUE(answer.allows("\""));
  ASSERT_TRUE(answer.take_bytes("a"));
  EXPECT_FALSE(answer.allows("\""));
  ASSERT_TRUE(answer.take_bytes("b\"]"));
  EXPECT_TRUE(answer.is_complete());
}

TEST(AnswerConstraint, does_not_end_a_value_that_violates_what_is_checked_at_its_end) {
  Answer answer(
      OutputSpec::Kind::json_schema,
      R"({"type": "array", "items": {"type": "integer"}, "not": {"contains": {"const": 7}}})");
  ASSERT_TRUE(answer.take_bytes("[1"));
  EXPECT_TRUE(answer.allows("]"));
  ASSERT_TRUE(answer.take_bytes(",7"));
  EXPECT_FALSE(answer.allows("]"));
  ASSERT_TRUE(answer.take_bytes("7]"));
  EXPECT_TRUE(answer.is_complete());
}

TEST(AnswerConstraint, holds_look_ahead_exactly) {
  // pydantic writes this pattern for Decimal.
  const std::string pattern = R"("pattern": "^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$")";
  for (const std::string good : {"1", "-0.5", "+.5", "00.", "12345678901234567890"}) {
    Answer answer(OutputSpec::Kind::json_schema, of_text(pattern));
    EXPECT_TRUE(answer.take_bytes("{\"v\":\"" + good + "\"}")) << good;
  }
  for (const std::string bad : {"", "-", "+.", ".", "1.2.3", "a"}) {
    Answer answer(OutputSpec::Kind::json_schema, of_text(pattern));
    EXPECT_FALSE(answer.take_bytes("{\"v\":\"" + bad + "\"}")) << bad;
  }
}

TEST(AnswerConstraint, writes_free_text_and_tags) {
  const std::string tag = R"({"type": "structural_tag", "format": {"type": "triggered_tags",
      "triggers": ["<f"], "tags": [{"type": "tag", "begin": "<f=a>", "end": "</f>",
      "content": {"type": "json_schema", "json_schema": {"type": "integer"}}}]}})";
  Answer answer(OutputSpec::Kind::structural_tag, tag);
  ASSERT_TRUE(answer.take_bytes("So <b> it is: <f"));
  EXPECT_FALSE(answer.allows("x"));
  ASSERT_TRUE(answer.take_bytes("=a>1"));
  EXPECT_FALSE(answer.allows("x"));
  ASSERT_TRUE(answer.take_bytes("2</f> and <f=a>-3</f>"));
  EXPECT_TRUE(answer.allows("x"));
  EXPECT_FALSE(answer.is_complete());
}

TEST(AnswerConstraint, refuses_what_it_cannot_hold_with_its_place) {
  try {
    Answer answer(OutputSpec::Kind::json_schema, of_text(R"("pattern": "(?<!a)b")"));
    FAIL();
  } catch (const InvalidArgument& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("#/v"), std::string::npos) << message;
    EXPECT_NE(message.find("look-behind"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace reprise::structured_output
