#include "tests/support/compile/pass_fixture.h"

#include <gtest/gtest.h>

#include "reprise/program/text.h"
#include "reprise/program/verify.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {

void expect_rewrites(const Pass& pass,
                     size_t num_matches,
                     const std::string& before,
                     const std::string& after) {
  SCOPED_TRACE(pass.name);
  program::Program rewritten = program::program_of(before);
  EXPECT_EQ(pass.apply(rewritten), num_matches);
  EXPECT_EQ(program::verify(rewritten).value_or(""), "");
  EXPECT_EQ(program::print(rewritten), program::print(program::program_of(after)));
  const std::string once = program::print(rewritten);
  EXPECT_EQ(pass.apply(rewritten), 0U) << "the second time";
  EXPECT_EQ(program::print(rewritten), once) << "the second time";
}

void expect_leaves(const Pass& pass, const std::string& text) {
  expect_rewrites(pass, 0, text, text);
}

}  // namespace reprise::compile
