#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/answer_program.h"
#include "reprise/structured_output/schema_compiler.h"
#include "reprise/structured_output/schema_expander.h"
#include "reprise/structured_output/schema_validator.h"
#include "reprise/structured_output/text_language.h"

namespace reprise::structured_output {

/// Turns one schema into nodes of a program; see compile_schema(). The members for texts are in
/// schema_texts.cpp, those for arrays and objects in schema_values.cpp.
class SchemaWriter {
 public:
  SchemaWriter(AnswerProgram& program, const Json& root, const TextSettings& settings);

  NodeId write();

 private:
  /// The surroundings of a value that change how it is written.
  struct Context {
    /// The value must differ from others, so each of its texts must have only one spelling.
    bool keeps_texts_apart = false;
  };

  /// Goes one level down in the schema, for the place in messages.
  class Step {
   public:
    Step(SchemaWriter& writer, std::string_view name) : writer_(&writer) {
      writer.path_.emplace_back(name);
    }
    ~Step() { writer_->path_.pop_back(); }
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;

   private:
    SchemaWriter* writer_;
  };

  class Deeper {
   public:
    explicit Deeper(int& depth) : depth_(&depth) { ++*depth_; }
    ~Deeper() { --*depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

   private:
    int* depth_;
  };

  static constexpr std::string_view kPlace = "JSON schema at ";
  [[nodiscard]] std::string placed(std::string_view what) const;
  [[noreturn]] void fail(std::string_view what) const;
  /// Adds the place in the schema to the message if `step` refuses it.
  template <typename Work>
  auto here(Work work) const -> decltype(work()) {
    try {
      return work();
    } catch (const NothingIsValid& error) {
      throw NothingIsValid(placed(error.what()));
    } catch (const InvalidArgument& error) {
      throw InvalidArgument(placed(error.what()));
    }
  }

  NodeId reference(const std::string& name);
  NodeId node_of(const Json& schema, const Context& context);
  NodeId expanded_node(const Json& schema, const Context& context);
  NodeId flat_node(const Json& schema, const Context& context);
  NodeId checked(NodeId node, const Json& schema);
  NodeId any_of(const Json& schema, const Context& context);
  NodeId values(const Json& schema);
  NodeId literals(std::vector<std::string> texts);
  NodeId of_type(const std::string& type, const Json& schema, const Context& context);
  NodeId number(const std::string& type, const Json& schema);
  NodeId text(const Json& schema, const Context& context);
  NodeId array(const Json& schema, const Context& context);
  NodeId object(const Json& schema);
  NodeId any_value(const Context& context);
  NodeId add_choice(std::vector<NodeId> ways);
  [[nodiscard]] std::vector<std::string> types_of(const Json& schema) const;
  void require_readable(const Json& schema) const;
  void require_progress(NodeId root) const;

  // Texts.
  [[nodiscard]] static TermId writable_texts(RegexTerms& terms);
  int32_t add_text(TextLeaf leaf);
  [[nodiscard]] TextLeaf plain_text(const Context& context) const;
  TextLeaf text_leaf(const Json& schema, const Context& context);
  TextLeaf ruled_text(const Json& rules,
                      int64_t least,
                      std::optional<int64_t> most,
                      const Context& context);
  TextLeaf limited(RegexTerms& terms, TermId term, int64_t least, std::optional<int64_t> most);
  std::shared_ptr<const Automaton> automaton_of(RegexTerms& terms, TermId term) const;

  // Arrays and objects.
  void add_items(const Json& schema, const Context& context, ArrayNode& node);
  void add_contained(const Json& schema, const Json& items, ArrayNode& node);
  [[nodiscard]] std::optional<size_t> num_values(NodeId node) const;
  struct Members;
  void add_properties(Members& members, ObjectNode& node);
  void add_property(Members& members, const std::string& name, const Json& rule, ObjectNode& node);
  void add_extras(Members& members, ObjectNode& node);
  void add_extra(TermId names, RegexTerms& terms, const Json& rule, ObjectNode& node);

  AnswerProgram* program_;
  const TextSettings* settings_;
  std::shared_ptr<const SchemaValidator> validator_;  // has the root
  SchemaExpander expander_;
  std::vector<std::string> path_{"#"};
  std::map<std::string, NodeId> references_;
  std::deque<std::pair<std::string, NodeId>> pending_;
  std::map<std::string, NodeId> known_;  // by the text of the schema
  NodeId any_value_ = NodeId::none;
  NodeId any_distinct_value_ = NodeId::none;
  bool has_checks_ = false;
  int depth_ = 0;
  int num_schemas_ = 0;
  size_t num_values_ = 0;
  size_t num_properties_ = 0;
};

}  // namespace reprise::structured_output
