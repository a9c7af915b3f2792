#pragma once

#include "reprise/base/json.h"
#include "reprise/structured_output/schema_merge.h"

namespace reprise::structured_output {

/// Rewrites one level of a JSON schema with fewer keywords: without `$ref`, `allOf`, `oneOf`,
/// `const`, `if` and dependencies. Their meaning is merged into the schema, or becomes branches of
/// `anyOf`, which are not rewritten. One object serves one schema.
class SchemaExpander {
 public:
  /// `root` outlives this object.
  explicit SchemaExpander(const Json& root) : root_(&root) {}

  /// \throws InvalidArgument when a keyword is malformed or not supported
  /// \throws NothingIsValid
  [[nodiscard]] MergedSchema expanded(const Json& schema, int depth = 0);

 private:
  [[nodiscard]] MergedSchema joined(const MergedSchema& left, const Json& right, int depth);
  [[nodiscard]] MergedSchema with(const MergedSchema& left, const MergedSchema& right);
  [[nodiscard]] MergedSchema with_opposites(MergedSchema merged, int depth);
  [[nodiscard]] Json branches_of_one_of(const Json& branches) const;

  const Json* root_;
  int num_references_ = 0;
};

/// A schema that is valid only where `schema` is not; null if there is no simple one. It may be
/// valid in fewer cases than `not schema`.
[[nodiscard]] Json opposite_of(const Json& schema);

}  // namespace reprise::structured_output
