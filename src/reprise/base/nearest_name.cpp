#include "reprise/base/nearest_name.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>
#include <vector>

namespace reprise {
namespace {

char folded(char c) {
  if (c == '-') return '_';
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Edits between two names: an insertion, a removal, a change, or a swap of two neighbours, which is
// the commonest slip of a typist ("prot").
size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> before_last(width);
  std::vector<size_t> last(width);
  std::vector<size_t> row(width);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    before_last.swap(last);
    last.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const char x = folded(a[i - 1]);
      const char y = folded(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (x == y ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && x == folded(b[j - 2]) && folded(a[i - 2]) == y;
      if (is_swap) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view name, std::span<const std::string_view> candidates) {
  // A name longer than every name of this project cannot be a typing mistake. The limit also bounds
  // the work.
  constexpr size_t kLongestPlausibleName = 128;
  if (name.empty() || name.size() > kLongestPlausibleName) return {};
  std::string_view best;
  size_t best_distance = std::numeric_limits<size_t>::max();
  for (std::string_view candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  // Accepts one mistake per three characters when both names begin alike, otherwise one per four.
  constexpr size_t kBeginning = 3;
  const bool begins_alike =
      edit_distance(name.substr(0, kBeginning), best.substr(0, kBeginning)) == 0;
  const size_t tolerance = std::max<size_t>(1,
                                            begins_alike ? std::max(name.size(), best.size()) / 3
                                                         : std::min(name.size(), best.size()) / 4);
  return best_distance <= tolerance ? best : std::string_view{};
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> candidates) {
  const std::string_view nearest = nearest_name(name, candidates);
  if (nearest.empty()) return {};
  return "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace reprise
