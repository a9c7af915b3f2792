#include "reprise/compile/report/render_split.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "reprise/compile/report/launch_count.h"
#include "reprise/compile/report/launch_frames.h"
#include "reprise/compile/report/split_outline.h"

namespace reprise::compile {
namespace {

using program::Piece;
using program::Program;
using program::SplitProgram;

// Sizes in the coordinates of the picture.
constexpr int kWidth = 1080;
constexpr int kMargin = 16;
constexpr int kBracket = 64;  // width of the bracket with the text "x 22"
constexpr int kLine = 18;     // height of a line of text
constexpr int kPadding = 4;   // inside a frame
constexpr int kGap = 5;       // between frames
constexpr int kColumns = 28;  // distance between the two columns
constexpr int kHeader = 30;   // height of a piece's header
constexpr int kPieceGap = 14;
constexpr int kNumColors = 6;
constexpr double kCharacter = 6.7;  // width of a character in the monospace font, rounded up

constexpr int kCardX = kMargin + kBracket;
constexpr int kCardWidth = kWidth - kMargin - kCardX;
constexpr int kColumnWidth = (kCardWidth - kColumns - 2 * 12) / 2;
constexpr int kLeftX = kCardX + 12;
constexpr int kRightX = kLeftX + kColumnWidth + kColumns;

constexpr const char* kStyle = R"(
    .rs text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; }
    .rs .title { font: 600 15px system-ui, "DejaVu Sans", sans-serif; }
    .rs .head, .rs .times { font: 600 12px system-ui, "DejaVu Sans", sans-serif; }
    .rs .note { font: 11px system-ui, "DejaVu Sans", sans-serif; }
    .rs .note, .rs .muted { fill: #59636e; }
    .rs .back { fill: #ffffff; }
    .rs .card { fill: none; stroke: #d1d9e0; }
    .rs .split { stroke: #818b98; stroke-dasharray: 5 3; }
    .rs .bracket { fill: none; stroke: #818b98; }
    .rs .s { fill: #818b98; }
    .rs .c0 { fill: #3f63d6; } .rs .c1 { fill: #1f8a4c; } .rs .c2 { fill: #b06a14; }
    .rs .c3 { fill: #9a4fbf; } .rs .c4 { fill: #c43f63; } .rs .c5 { fill: #1f8796; }
    .rs .frame { fill-opacity: 0.09; stroke-opacity: 0.75; }
    .rs .f0 { stroke: #3f63d6; } .rs .f1 { stroke: #1f8a4c; } .rs .f2 { stroke: #b06a14; }
    .rs .f3 { stroke: #9a4fbf; } .rs .f4 { stroke: #c43f63; } .rs .f5 { stroke: #1f8796; }
    .rs .fs { stroke: #818b98; stroke-dasharray: 5 3; }
    .rs .cell { fill: #ffffff; font-weight: 600; text-anchor: middle; }
    .rs .end { text-anchor: end; }
    @media (prefers-color-scheme: dark) {
      .rs text { fill: #e6edf3; }
      .rs .note, .rs .muted { fill: #9da7b3; }
      .rs .back { fill: #0d1117; }
      .rs .card { stroke: #3d444d; }
      .rs .cell { fill: #0d1117; }
      .rs .c0 { fill: #8ba6f7; } .rs .c1 { fill: #5fc98c; } .rs .c2 { fill: #e0a45c; }
      .rs .c3 { fill: #cb97ea; } .rs .c4 { fill: #ee8aa3; } .rs .c5 { fill: #68c8d6; }
      .rs .f0 { stroke: #8ba6f7; } .rs .f1 { stroke: #5fc98c; } .rs .f2 { stroke: #e0a45c; }
      .rs .f3 { stroke: #cb97ea; } .rs .f4 { stroke: #ee8aa3; } .rs .f5 { stroke: #68c8d6; }
      .rs .frame { fill-opacity: 0.13; }
    }
)";

std::string cut_to(std::string_view text, double pixels) {
  const auto most = static_cast<size_t>(std::max(pixels / kCharacter, 1.0));
  if (text.size() <= most) return std::string(text);
  return std::string(text.substr(0, most - 1)) + "\xE2\x80\xA6";  // an ellipsis
}

// "1 piece", "2 pieces"
std::string counted(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string launches_text(size_t launches) {
  return fmt::format("{} {}", launches, launches == 1 ? "launch" : "launches");
}

int height_of(const LaunchFrame& frame) {
  return static_cast<int>(frame.num_text_lines()) * kLine + (frame.is_launch ? 2 * kPadding : 0);
}

// The launches on one side of a piece. Layers that repeat within the piece are drawn once.
struct Column {
  std::vector<LaunchFrame> frames;
  std::vector<PieceRun> runs;

  explicit Column(std::vector<LaunchFrame> all) : frames(std::move(all)) {
    std::map<std::string, size_t> numbers;  // a number for each distinct text of a launch
    std::vector<size_t> sequence;
    for (const LaunchFrame& frame : frames) {
      std::string drawn = frame.caption;
      for (const OpText& op : frame.lines)
        drawn += '\n' + op.name + '\t' + op.place + '\t' + op.type;
      sequence.push_back(numbers.try_emplace(std::move(drawn), numbers.size()).first->second);
    }
    runs = fold_runs(sequence);
  }

  // Only patterns of at least three launches are folded: two adds in a row are too short.
  [[nodiscard]] static bool is_folded(const PieceRun& run) {
    return run.count > 1 && run.period > 2;
  }
  [[nodiscard]] static size_t num_drawn(const PieceRun& run) {
    return is_folded(run) ? run.period : run.period * run.count;
  }
  [[nodiscard]] int height() const {
    int height = 0;
    for (const PieceRun& run : runs) {
      for (size_t i = 0; i < num_drawn(run); ++i) height += height_of(frames[run.begin + i]) + kGap;
      if (is_folded(run)) height += kLine + kGap;
    }
    return std::max(height - kGap, kLine);
  }
};

class Picture {
 public:
  explicit Picture(const SplitPicture& picture) : in_(picture) {
    const auto is_splitting = [](const Piece& a, const Piece& b) {
      return a.is_splitting == b.is_splitting;
    };
    has_before_ = in_.before != nullptr &&
                  std::ranges::equal(in_.before->pieces, in_.after->pieces, is_splitting);
    for (const Piece& piece : in_.after->pieces) {
      if (!piece.is_splitting) colors_.try_emplace(piece.program, colors_.size() % kNumColors);
    }
  }

  std::string render() {
    text(kMargin, y_ + 18, "title", in_.title);
    y_ += 34;
    draw_order();
    draw_column_heads();
    for (const PieceRun& run : runs()) draw_run(run);
    draw_legend();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"rs\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"img\">\n<title>{2}</title>\n<style>{3}</style>\n"
        "<rect class=\"back\" width=\"{0}\" height=\"{1}\"/>\n{4}</svg>\n",
        kWidth,
        y_,
        escape_xml(in_.title),
        kStyle,
        out_);
  }

 private:
  // Two pieces are equal if their left sides and their right sides are equal.
  [[nodiscard]] std::vector<PieceRun> runs() const {
    std::map<std::pair<size_t, size_t>, size_t> numbers;
    std::vector<size_t> sequence;
    for (size_t i = 0; i < in_.after->pieces.size(); ++i) {
      const size_t before = has_before_ ? in_.before->pieces[i].program : 0;
      sequence.push_back(numbers.try_emplace({before, in_.after->pieces[i].program}, numbers.size())
                             .first->second);
    }
    return fold_runs(sequence);
  }
  [[nodiscard]] std::string color_of(const Piece& piece) const {
    return piece.is_splitting ? "s" : fmt::format("{}", colors_.at(piece.program));
  }
  [[nodiscard]] std::string fill_of(const Piece& piece) const {
    return piece.is_splitting ? "s" : fmt::format("c{}", colors_.at(piece.program));
  }

  template <typename... Arguments>
  void put(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  void text(double x, double y, std::string_view css, std::string_view content) {
    put("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", css, x, y, escape_xml(content));
  }

  // Draws all pieces in one row, without folding repetitions.
  void draw_order() {
    const SplitProgram& split = *in_.after;
    const double most = kWidth - 2 * kMargin;
    const auto count = static_cast<double>(std::max<size_t>(split.pieces.size(), 1));
    const double cell = std::min(30.0, most / count);
    double x = kMargin;
    for (size_t i = 0; i < split.pieces.size(); ++i) {
      const Piece& piece = split.pieces[i];
      const double inset = piece.is_splitting ? 8 : 0;
      put("<rect class=\"cell-box {}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\" "
          "rx=\"2\"><title>piece {}, program {}{}</title></rect>\n",
          fill_of(piece),
          x + 1,
          y_ + inset,
          std::max(cell - 2, 1.0),
          24 - 2 * inset,
          i,
          piece.program,
          piece.is_splitting ? ", split point" : "");
      if (!piece.is_splitting && cell >= 14) {
        text(x + cell / 2, y_ + 16, "cell", fmt::to_string(piece.program));
      }
      x += cell;
    }
    y_ += 24;
    const size_t capturable = split.num_capturable_pieces();
    text(kMargin,
         y_ + 18,
         "note",
         fmt::format("{} in order: {} compiled as {} (numbers), {} (grey)",
                     counted(split.pieces.size(), "piece"),
                     capturable,
                     counted(split.num_unique_capturable_pieces(), "program"),
                     counted(split.pieces.size() - capturable, "split point")));
    y_ += 36;
  }

  void draw_column_heads() {
    size_t before = 0;
    size_t after = 0;
    for (size_t i = 0; i < in_.after->pieces.size(); ++i) {
      if (has_before_) before += num_launches(in_.before->programs[in_.before->pieces[i].program]);
      after += launches_after(in_.after->pieces[i].program);
    }
    text(kLeftX,
         y_ + 12,
         "head",
         has_before_ ? fmt::format("as traced: {} per step", launches_text(before))
                     : std::string("as traced: split differently, see the text"));
    text(kRightX, y_ + 12, "head", fmt::format("as compiled: {} per step", launches_text(after)));
    y_ += 24;
  }

  [[nodiscard]] const std::vector<bool>& code_of(size_t program) const {
    static const std::vector<bool> kNone;
    return program < in_.has_code.size() ? in_.has_code[program] : kNone;
  }
  [[nodiscard]] size_t launches_after(size_t program) const {
    return num_launches(in_.after->programs[program], code_of(program));
  }

  void draw_run(const PieceRun& run) {
    const int top = y_;
    for (size_t i = 0; i < run.period; ++i) draw_piece(run.begin + i, run);
    if (run.count == 1) return;
    const int bottom = y_ - kPieceGap;
    const int x = kCardX - 10;
    put("<path class=\"bracket\" d=\"M{} {} h-8 v{} h8\"/>\n", x, top + 1, bottom - top - 2);
    put("<text class=\"times end\" x=\"{}\" y=\"{}\">\xC3\x97 {}</text>\n",
        x - 14,
        (top + bottom) / 2 + 4,
        run.count);
  }

  void draw_piece(size_t index, const PieceRun& run) {
    const Piece& piece = in_.after->pieces[index];
    const Program& after = in_.after->programs[piece.program];
    const Program* before =
        has_before_ ? &in_.before->programs[in_.before->pieces[index].program] : nullptr;
    const Column right(launch_frames(after, code_of(piece.program)));
    const Column left(before == nullptr ? std::vector<LaunchFrame>{} : launch_frames(*before, {}));
    const int height = kHeader + std::max(left.height(), right.height()) + 10;
    put("<g class=\"piece\">\n<rect class=\"card{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" "
        "rx=\"6\"/>\n<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"5\" height=\"{}\" rx=\"2\"/>\n",
        piece.is_splitting ? " split" : "",
        kCardX,
        y_,
        kCardWidth,
        height,
        fill_of(piece),
        kCardX,
        y_,
        height);
    const std::string launches = before == nullptr ? launches_text(launches_after(piece.program))
                                                   : fmt::format("{} \xE2\x86\x92 {} launches",
                                                                 num_launches(*before),
                                                                 launches_after(piece.program));
    text(kLeftX,
         y_ + 19,
         "head",
         fmt::format("{} {}: program {}{}",
                     run.count == 1 ? "piece" : "pieces",
                     pieces_text(index, run),
                     piece.program,
                     piece.is_splitting ? ", a split point: stays outside piecewise graphs" : ""));
    put("<text class=\"note end\" x=\"{}\" y=\"{}\">{}</text>\n",
        kRightX + kColumnWidth,
        y_ + 19,
        piece.is_splitting ? std::string() : launches);
    draw_column(left, kLeftX, y_ + kHeader, color_of(piece));
    draw_column(right, kRightX, y_ + kHeader, color_of(piece));
    put("</g>\n");
    y_ += height + kPieceGap;
  }

  static std::string pieces_text(size_t index, const PieceRun& run) {
    if (run.count == 1) return fmt::to_string(index);
    if (run.count == 2) return fmt::format("{} and {}", index, index + run.period);
    return fmt::format(
        "{}, {}, \xE2\x80\xA6 {}", index, index + run.period, index + (run.count - 1) * run.period);
  }

  void draw_column(const Column& column, int x, int y, const std::string& color) {
    for (const PieceRun& run : column.runs) {
      const int top = y;
      for (size_t i = 0; i < Column::num_drawn(run); ++i) {
        const LaunchFrame& frame = column.frames[run.begin + i];
        draw_frame(frame, x, y, color);
        y += height_of(frame) + kGap;
      }
      if (!Column::is_folded(run)) continue;
      put("<path class=\"bracket\" d=\"M{} {} v{}\"/>\n", x - 4, top, y - kGap - top);
      text(x + 8,
           y + 13,
           "times",
           fmt::format("\xC3\x97 {}: these again, for each layer", run.count));
      y += kLine + kGap;
    }
  }

  void draw_frame(const LaunchFrame& frame, int x, int y, const std::string& color) {
    if (frame.is_launch) {
      put("<rect class=\"frame {} f{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\">"
          "<title>{}</title></rect>\n",
          color == "s" ? "s" : "c" + color,
          color,
          x,
          y,
          kColumnWidth,
          height_of(frame),
          escape_xml(frame.tooltip));
      y += kPadding;
    }
    if (!frame.caption.empty()) {
      text(x + 8, y + 13, "muted", cut_to(frame.caption, kColumnWidth - 16));
      y += kLine;
    }
    for (const OpText& op : frame.lines) {
      draw_op(op, frame, x, y);
      y += kLine;
    }
  }

  void draw_op(const OpText& op, const LaunchFrame& frame, int x, int y) {
    const int indent = frame.caption.empty() ? 8 : 20;
    const double type_width = static_cast<double>(op.type.size()) * kCharacter;
    const double name_x = x + indent;
    if (!frame.is_launch) {
      text(name_x, y + 13, "muted", cut_to(op.name, kColumnWidth - 16));
      return;
    }
    text(name_x, y + 13, "op", op.name);
    const double place_x = name_x + static_cast<double>(op.name.size() + 2) * kCharacter;
    const double room = x + kColumnWidth - 8 - type_width - 12 - place_x;
    if (!op.place.empty() && room > 4 * kCharacter) {
      text(place_x, y + 13, "muted", cut_to(op.place, room));
    }
    if (!op.type.empty()) {
      put("<text class=\"muted end\" x=\"{}\" y=\"{}\">{}</text>\n",
          x + kColumnWidth - 8,
          y + 13,
          escape_xml(op.type));
    }
  }

  void draw_legend() {
    text(kMargin,
         y_ + 10,
         "note",
         "A frame is one launch; several lines in it are ops that were fused. Text without a frame "
         "(views, uninitialised memory) costs nothing.");
    text(kMargin,
         y_ + 27,
         "note",
         "Pieces of one colour run one program. T tokens, R requests, L rows of logits, B cache "
         "blocks.");
    y_ += 42;
  }

  const SplitPicture& in_;
  bool has_before_ = false;
  std::map<size_t, size_t> colors_;  // by program
  int y_ = kMargin;
  std::string out_;
};

}  // namespace

std::string render_svg(const SplitPicture& picture) { return Picture(picture).render(); }

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += byte < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return escaped;
}

}  // namespace reprise::compile
