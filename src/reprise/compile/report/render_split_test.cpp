#include "reprise/compile/report/render_split.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/program/text.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::program_of;
using program::SplitProgram;
using ::testing::HasSubstr;
using ::testing::Not;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

constexpr const char* kTraced = R"(
    program {
      input %x: f32[T, 8]
      parameter p0: f32[8]
      %0: f32[T, 8] = add(%x, %x)
      %1: f32[T, 8] = rms_norm(%0, p0) {epsilon=1e-05}  // model.layers.0.<norm>
      %2: f32[T, 4] = slice(%1) {dim=1, begin=0, length=4}
      %3: f32[T, 2, 2] = unflatten(%2) {heads=2}
      %4: f32[T, 4] = flatten(%3)
      return %4
    }
  )";
constexpr const char* kFused = R"(
    program {
      input %x: f32[T, 8]
      parameter p0: f32[8]
      %0: f32[T, 8], %1: f32[T, 8] = fused_add_rms_norm(%x, %x, p0) {epsilon=1e-05}
      %2: f32[T, 4] = slice(%0) {dim=1, begin=0, length=4}
      return %2
    }
  )";
constexpr const char* kGroupedRows = R"(
    program {
      group g0 {
        input %x0: f32[T, 8]
        %0: f32[T, 8] = add(%x0, %x0)
        %1: f32[T, 8] = add(%0, %0)
        return %1
      }
      input %x: f32[T, 8]
      %0: f32[T, 8] = row_group(%x) {group=g0}
      return %0
    }
  )";

// A split program with these programs and pieces. Programs with odd numbers are splitting.
SplitProgram split_of(const std::vector<std::string>& programs, const std::vector<size_t>& pieces) {
  SplitProgram split;
  for (const std::string& text : programs) split.programs.push_back(program_of(text));
  for (size_t program : pieces) {
    split.pieces.push_back({.program = program, .is_splitting = program % 2 == 1});
  }
  return split;
}

TEST(RenderSplit, each_launch_has_a_frame_and_views_have_none) {
  const SplitProgram before = split_of({kTraced}, {0});
  const SplitProgram after = split_of({kFused}, {0});
  const std::string svg = render_svg({.before = &before, .after = &after, .title = "t"});
  EXPECT_EQ(count(svg, "class=\"frame "), 3U);  // add and rms_norm before, one fused launch after
  EXPECT_EQ(count(svg, ">rms_norm<"), 2U);
  EXPECT_THAT(svg, HasSubstr("slice unflatten flatten"));
  EXPECT_THAT(svg, HasSubstr("as traced: 2 launches"));
  EXPECT_THAT(svg, HasSubstr("as compiled: 1 launch per step"));
}

TEST(RenderSplit, repeated_layers_are_drawn_once_and_counted) {
  const SplitProgram split =
      split_of({kTraced, kFused, kTraced}, {0, 1, 2, 1, 2, 1, 2, 1, 2, 1, 0});
  const std::string svg = render_svg({.before = &split, .after = &split, .title = "t"});
  EXPECT_EQ(count(svg, "<g class=\"piece\">"), 5U);  // 0, 4 x (1 2), 1, 0
  EXPECT_EQ(count(svg, "\xC3\x97 4<"), 1U);
  EXPECT_EQ(count(svg, "class=\"cell-box "), 11U);  // none folded in the strip
  EXPECT_THAT(svg, HasSubstr("pieces 2, 4, \xE2\x80\xA6 8"));
}

TEST(RenderSplit, layers_that_repeat_inside_a_piece_are_drawn_once) {
  std::string text =
      "program {\n  input %x: f32[T, 8]\n  parameter p0: f32[8, 8]\n  parameter p1: f32[8]\n";
  std::string last = "x";
  for (int layer = 0; layer < 24; ++layer) {
    const int first = 3 * layer;
    text += fmt::format("  %{}: f32[T, 8] = rms_norm(%{}, p1) {{epsilon=1e-05}}\n", first, last);
    text += fmt::format("  %{}: f32[T, 8] = linear(%{}, p0)\n", first + 1, first);
    text += fmt::format("  %{}: f32[T, 8] = add(%{}, %{})\n", first + 2, first + 1, last);
    last = fmt::to_string(first + 2);
  }
  SplitProgram split;
  split.programs.push_back(program::parse(text + fmt::format("  return %{}\n}}\n", last)));
  split.pieces.push_back({.program = 0});
  const std::string svg = render_svg({.before = &split, .after = &split});
  EXPECT_EQ(count(svg, "class=\"frame "), 6U);  // three on each side
  EXPECT_EQ(count(svg, "\xC3\x97 24: these again"), 2U);
  EXPECT_THAT(svg, HasSubstr("as compiled: 72 launches"));
}

TEST(RenderSplit, equal_pieces_have_one_colour_and_split_points_none) {
  const SplitProgram split = split_of({kTraced, kFused, kGroupedRows}, {0, 1, 2, 1, 0});
  const std::string svg = render_svg({.before = &split, .after = &split, .title = "t"});
  EXPECT_EQ(count(svg, "class=\"cell-box c0\""), 2U);
  EXPECT_EQ(count(svg, "class=\"cell-box c1\""), 1U);
  EXPECT_EQ(count(svg, "class=\"cell-box s\""), 2U);
  EXPECT_EQ(count(svg, "class=\"card split\""), 2U);
}

TEST(RenderSplit, a_group_says_whether_it_has_code_and_counts_accordingly) {
  const SplitProgram split = split_of({kGroupedRows}, {0});
  std::string svg = render_svg({.before = &split, .after = &split, .has_code = {{true}}});
  EXPECT_THAT(svg, HasSubstr("row group, one generated kernel"));
  EXPECT_THAT(svg, HasSubstr("as compiled: 1 launch per step"));
  svg = render_svg({.before = &split, .after = &split, .has_code = {{false}}});
  EXPECT_THAT(svg, HasSubstr("as compiled: 2 launches"));
}

TEST(RenderSplit, sides_that_were_cut_differently_are_not_put_side_by_side) {
  const SplitProgram before = split_of({kTraced, kFused}, {0, 1});
  const SplitProgram after = split_of({kFused}, {0});
  const std::string svg = render_svg({.before = &before, .after = &after});
  EXPECT_THAT(svg, HasSubstr("split differently"));
  EXPECT_EQ(count(svg, "class=\"frame "), 1U);
}

TEST(RenderSplit, names_from_a_model_cannot_break_the_picture) {
  EXPECT_EQ(escape_xml("<a b='\"&\x01>"), "&lt;a b=&#39;&quot;&amp;?&gt;");
  const SplitProgram split = split_of({kTraced}, {0});
  const std::string svg =
      render_svg({.before = &split, .after = &split, .title = "</svg><script>"});
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
  EXPECT_THAT(svg, Not(HasSubstr("<norm>")));
  EXPECT_THAT(svg, HasSubstr("&lt;norm&gt;"));
}

TEST(RenderSplit, nothing_is_a_picture_too) {
  const SplitProgram empty;
  EXPECT_THAT(render_svg({.before = &empty, .after = &empty}), HasSubstr("0 pieces"));
}

}  // namespace
}  // namespace reprise::compile
