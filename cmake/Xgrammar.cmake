# Builds xgrammar's C++ core as the static library `xgrammar`, from the source archive that scripts/setup.sh
# downloads. Sets XGRAMMAR_FOUND. This file downloads nothing.
set(REPRISE_DOWNLOADS ${PROJECT_SOURCE_DIR}/build/downloads CACHE PATH "Where scripts/setup.sh puts source archives")
set(XGRAMMAR_FOUND FALSE)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/xgrammar.txt)

file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/xgrammar.txt pin REGEX "^xgrammar==")
string(REGEX MATCH "^xgrammar==([0-9.]+) --hash=sha256:([0-9a-f]+)$" pin "${pin}")
set(xgrammar_name xgrammar-${CMAKE_MATCH_1})
set(xgrammar_hash ${CMAKE_MATCH_2})
set(xgrammar_archive ${REPRISE_DOWNLOADS}/${xgrammar_name}.tar.gz)
if(NOT EXISTS ${xgrammar_archive})
  message(STATUS "Grammars in EBNF: left out; scripts/setup.sh downloads ${xgrammar_name}")
  return()
endif()
file(SHA256 ${xgrammar_archive} found_hash)
if(NOT found_hash STREQUAL xgrammar_hash)
  message(FATAL_ERROR "${xgrammar_archive} has the SHA-256 ${found_hash}, expected ${xgrammar_hash}. "
                      "Remove the file and run scripts/setup.sh again.")
endif()
set(xgrammar_source ${CMAKE_BINARY_DIR}/third_party/${xgrammar_name})
# The changes below apply to xgrammar's original source, so a source changed by an older version of this file is
# replaced.
set(xgrammar_stamp ${xgrammar_source}/changes.sha256)
file(SHA256 ${CMAKE_CURRENT_LIST_FILE} changes_hash)
set(made_changes_hash "")
if(EXISTS ${xgrammar_stamp})
  file(READ ${xgrammar_stamp} made_changes_hash)
endif()
if(NOT made_changes_hash STREQUAL changes_hash)
  file(REMOVE_RECURSE ${xgrammar_source})
  file(ARCHIVE_EXTRACT INPUT ${xgrammar_archive} DESTINATION ${CMAKE_BINARY_DIR}/third_party TOUCH
       PATTERNS ${xgrammar_name}/cpp/* ${xgrammar_name}/include/* ${xgrammar_name}/3rdparty/picojson/*
                ${xgrammar_name}/3rdparty/dlpack/include/* ${xgrammar_name}/LICENSE ${xgrammar_name}/NOTICE)
endif()
# Changes one place in xgrammar's source. Fails if the place does not exist, because the change then needs a review.
function(change_xgrammar file from to)
  file(READ ${xgrammar_source}/${file} text)
  string(FIND "${text}" "${to}" changed_at)
  if(NOT changed_at EQUAL -1)
    return()
  endif()
  string(REPLACE "${from}" "${to}" changed "${text}")
  if(changed STREQUAL text)
    message(FATAL_ERROR "${file} of ${xgrammar_name} has not the text to be changed: ${from}")
  endif()
  file(WRITE ${xgrammar_source}/${file} "${changed}")
endfunction()
# Merging states is correct for states that the same text reaches, and for states from which the same texts lead to
# the end, but not for both kinds at once: 219|220 would then also accept 210. The start state must not be merged with
# a later state.
change_xgrammar(cpp/fsm.cc
  "bool is_equiv_precursor = false;"
  "bool is_equiv_precursor = false, has_merged_successors = is_equiv_successor;")
change_xgrammar(cpp/fsm.cc
  "for (int i = 0; i < static_cast<int>(next_states.size()); i++) {"
  "for (int i = 0; !has_merged_successors && i < static_cast<int>(next_states.size()); i++) {")
change_xgrammar(cpp/fsm.cc
  "if (previous_states[i].size() != 1 || union_find_set.Count(i)) {"
  "if (previous_states[i].size() != 1 || union_find_set.Count(i) || i == result.GetStart()) {")
change_xgrammar(cpp/fsm.cc
  "if (sibling <= i || previous_states[sibling].size() != 1 ||"
  "if (sibling <= i || previous_states[sibling].size() != 1 || sibling == result.GetStart() ||")

# For characters of three bytes, the second byte begins at 0x80. From 0x00 on, every range up to U+D7FF lost Hangul,
# and 0xED led to a state without exit.
change_xgrammar(cpp/grammar_functor.cc
  "AddSameLengthCharacterRange(fsm, tmp_state_max, to, 0x0080, (max & 0x00FFFF));"
  "AddSameLengthCharacterRange(fsm, tmp_state_max, to, 0x8080, (max & 0x00FFFF));")
# These constants are used by reference, so they need a definition; an unoptimised build did not link.
change_xgrammar(cpp/grammar_functor.cc "static const int16_t k" "static constexpr int16_t k")
# Our code computes the characters of a set (structured_output/xgrammar_grammar.cpp): xgrammar's complements covered
# ASCII only and accepted bytes that are not UTF-8. Our code also removes states that lead to no end.
change_xgrammar(cpp/grammar_functor.cc
  "  if (is_negative) {
    result_fsm = BuildNegativeCharacterClass(expr);
    return result_fsm;
  }"
  "  std::vector<std::pair<uint32_t, uint32_t>> CharactersOf(const Grammar::Impl::GrammarExpr& expr);
  const std::vector<std::pair<uint32_t, uint32_t>> characters = CharactersOf(expr);")
change_xgrammar(cpp/grammar_functor.cc
  "  for (int i = 1; i < static_cast<int>(expr.size()); i += 2) {
    uint32_t codepoint_min = static_cast<uint32_t>(expr[i]);
    uint32_t codepoint_max = static_cast<uint32_t>(expr[i + 1]);"
  "  for (const auto& [codepoint_min, codepoint_max] : characters) {")
change_xgrammar(cpp/grammar_functor.cc
  "    // Compress to compact fsm
"
  "    void CutDeadEnds(const Grammar& grammar, const std::vector<std::optional<FSMWithStartEnd>>& rules, FSM& all);
    void MergeRulesUsedOnce(const Grammar& grammar, std::vector<std::optional<FSMWithStartEnd>>& rules, FSM& all);
    MergeRulesUsedOnce(*grammar, per_rule_fsms, complete_fsm);
    CutDeadEnds(*grammar, per_rule_fsms, complete_fsm);
    // Compress to compact fsm
")
# Masks of states are made for at most 0.3 s while compiling, the others when a text first reaches their state: with
# 150,000 tokens, all masks took seconds. All texts of a grammar share the masks, up to a number of bytes.
change_xgrammar(cpp/compiled_grammar_impl.h
  "  Grammar GetGrammar() const { return grammar; }
"
  "  using MaskOfState = std::shared_ptr<const AdaptiveTokenMask>;
  std::unordered_map<int32_t, DynamicBitset> second_slicing;
  mutable std::mutex masks_mutex;
  mutable std::unordered_map<ParserState, MaskOfState, StateHashForCache> masks;
  mutable std::atomic<std::size_t> mask_bytes = 0;
  MaskOfState MaskOf(const ParserState& state) const;

  Grammar GetGrammar() const { return grammar; }
")
change_xgrammar(cpp/compiled_grammar_impl.h
  "#include <cstddef>
#include <cstdint>
"
  "#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
")
change_xgrammar(cpp/compiled_grammar.cc
  "MemorySize(impl.grammar) + MemorySize(impl.adaptive_token_mask_cache);"
  "MemorySize(impl.grammar) + impl.mask_bytes;")
change_xgrammar(cpp/grammar_compiler.cc
  "CompiledGrammar GrammarCompilerSub::MultiThreadCompileGrammar(Grammar grammar_unoptimized) {"
  "CompiledGrammar::Impl::MaskOfState CompiledGrammar::Impl::MaskOf(const ParserState& state) const {
  constexpr std::size_t kMaxMaskBytes = std::size_t{64} << 20;
  {
    const std::lock_guard<std::mutex> lock(masks_mutex);
    const auto found = masks.find(state);
    if (found != masks.end()) return found->second;
  }
  std::optional<RuleLevelCache> no_cache;
  const ParserState alone(state.rule_id, state.sequence_id, state.element_id, ParserState::kNoPrevInputPos, 0);
  GrammarMatcherForTokenMaskCache matcher(grammar, alone, second_slicing, tokenizer_info, no_cache, false);
  const auto mask = std::make_shared<const AdaptiveTokenMask>(
      matcher.GetAdaptiveTokenMask(state.rule_id == grammar->GetRootRuleId()));
  const std::size_t bytes = MemorySize(*mask) + sizeof(AdaptiveTokenMask);
  const std::lock_guard<std::mutex> lock(masks_mutex);
  if (mask_bytes + bytes <= kMaxMaskBytes && masks.emplace(state, mask).second) mask_bytes += bytes;
  return mask;
}

// Masks are made ahead only for speed. A mask that takes too long is left to the text that needs it.
static bool MakeMask(const CompiledGrammar::Impl& grammar, const ParserState& state) {
  using namespace reprise::structured_output;
  WorkLimit limit;
  limit.num_steps_left = int64_t{1} << 22;
  if (work_limit_of_thread() != nullptr) limit.is_cancelled = work_limit_of_thread()->is_cancelled;
  const WorkLimitScope scope(limit);
  try {
    grammar.MaskOf(state);
    return true;
  } catch (const WorkLimitReached&) {
    return false;
  }
}

CompiledGrammar GrammarCompilerSub::MultiThreadCompileGrammar(Grammar grammar_unoptimized) {")
change_xgrammar(cpp/grammar_compiler.cc
  "    std::unordered_set<int> reachable_states;
    rule_fsm->GetReachableStates(&reachable_states);
"
  "    if (std::chrono::steady_clock::now() >= last_mask) break;
    std::unordered_set<int> reachable_states;
    rule_fsm->GetReachableStates(&reachable_states);
")
change_xgrammar(cpp/grammar_compiler.cc
  "      add_task_adaptive_token_mask(cur_stack_element, rule_id == root_rule_id);
    }
  }
"
  "      if (std::chrono::steady_clock::now() < last_mask && !MakeMask(*compiled_grammar_impl, cur_stack_element)) break;
    }
  }
")
change_xgrammar(cpp/grammar_compiler.cc
  "  auto root_rule_id = compiled_grammar_impl->grammar->GetRootRuleId();
"
  "  compiled_grammar_impl->second_slicing = std::move(tag_dispatch_rule_id_to_second_slicing_bitset);
  const auto last_mask = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
")
change_xgrammar(cpp/grammar_compiler.cc "#include <bitset>
" "#include <bitset>
#include <chrono>
")
change_xgrammar(cpp/grammar_matcher.cc
  "std::vector<std::pair<ParserState, decltype(adaptive_token_mask_cache.cbegin())>>"
  "std::vector<std::pair<ParserState, CompiledGrammar::Impl::MaskOfState>>")
change_xgrammar(cpp/grammar_matcher.cc
  "auto adaptive_token_mask_it = adaptive_token_mask_cache.find(state);
    XGRAMMAR_CHECK(adaptive_token_mask_it != adaptive_token_mask_cache.end()) << state;"
  "auto adaptive_token_mask_it = compiled_grammar_->MaskOf(state);")
change_xgrammar(cpp/grammar_matcher.cc
  "adaptive_token_mask_it->second;"
  "*adaptive_token_mask_it;")
# All rules share one automaton, but its memory was counted for every rule: 96 MiB for 50 optional properties.
change_xgrammar(cpp/fsm.cc
  "  return MemorySize(self.fsm_) + MemorySize(self.ends_);"
  "  return MemorySize(self.ends_);")
# Repetitions of up to 512 become states of one rule with exact masks. For a larger repetition, which is counted, the
# matcher has to try every token.
change_xgrammar(cpp/grammar_parser.cc "static const int64_t kUnzipThreshold = 128;" "static const int64_t kUnzipThreshold = 512;")

# Compares the whole character, not only its last byte: + is not in \u0100-\u0436.
change_xgrammar(cpp/earley_parser.cc
  "if (static_cast<uint8_t>(sub_sequence[i]) <= ch &&
        ch <= static_cast<uint8_t>(sub_sequence[i + 1])) {"
  "if (sub_sequence[i] <= static_cast<int32_t>(ch) && static_cast<int32_t>(ch) <= sub_sequence[i + 1]) {")

# The matcher's loops count their work and stop at the thread's limit (structured_output/work_limit.h): the work grows
# with the square of the ways to read a text, and for some grammars it has no end.
change_xgrammar(cpp/config.cc
  "namespace xgrammar {
"
  "#include \"reprise/structured_output/work_limit.h\"
reprise::structured_output::WorkLimit*& reprise::structured_output::work_limit_of_thread() noexcept {
  static thread_local WorkLimit* limit = nullptr;
  return limit;
}
namespace xgrammar {
")
change_xgrammar(cpp/earley_parser.h
  "#include \"grammar_impl.h\"
"
  "#include \"grammar_impl.h\"
#include \"reprise/structured_output/work_limit.h\"
")
change_xgrammar(cpp/support/compact_2d_array.h
  "  friend std::size_t MemorySize(const Compact2DArray<DataType>& arr) {"
  "  std::size_t num_elements() const { return data_.size(); }
  friend std::size_t MemorySize(const Compact2DArray<DataType>& arr) {")
change_xgrammar(cpp/earley_parser.cc
  "  // Scan all the scanable states.
"
  "  // Scan all the scanable states.
  reprise::structured_output::count_work(1 + latest_states.size());
")
change_xgrammar(cpp/earley_parser.cc
  "    tmp_process_state_queue_.pop();
"
  "    tmp_process_state_queue_.pop();
    reprise::structured_output::count_work(1);
")
# Four comparisons of states take about as long as one step of the other loops, so they count as one.
change_xgrammar(cpp/earley_parser.cc
  "  for (const auto& [ref_id, parent_state] : parent_states_map) {"
  "  reprise::structured_output::count_work(parent_states_map.size() / 4);
  for (const auto& [ref_id, parent_state] : parent_states_map) {")
change_xgrammar(cpp/earley_parser.cc
  "in_vec = [&](const ParserState& state_) {"
  "in_vec = [&](const ParserState& state_) {
        reprise::structured_output::count_work(1 + rule_id_to_completable_states_.Back().size() / 4);")
change_xgrammar(cpp/earley_parser.cc
  "std::vector<std::pair<int32_t, ParserState>> to_added_states;"
  "reprise::structured_output::count_work(parent_states_map.size() / 4);
      std::vector<std::pair<int32_t, ParserState>> to_added_states;")
change_xgrammar(cpp/earley_parser.cc
  "  scanable_state_history_.PushBack(tmp_states_to_be_added_);
"
  "  scanable_state_history_.PushBack(tmp_states_to_be_added_);
  reprise::structured_output::check_states(
      scanable_state_history_.num_elements() + rule_id_to_completable_states_.num_elements());
")
# The compiler's loops whose cost grows with the square of a specification also count their work.
change_xgrammar(cpp/fsm.cc
  "#include \"fsm.h\"
"
  "#include \"fsm.h\"
#include \"reprise/structured_output/work_limit.h\"
")
change_xgrammar(cpp/fsm.cc
  "  while (changed) {
"
  "  while (changed) {
    reprise::structured_output::count_work(4 * result.NumStates());
")
change_xgrammar(cpp/fsm.cc
  "    for (const auto& [transition, precursors] : possible_transitions) {
"
  "    for (const auto& [transition, precursors] : possible_transitions) {
      reprise::structured_output::count_work(partitions.size() + now_fsm.NumStates());
")
change_xgrammar(cpp/fsm.cc
  "    for (const auto& interval : intervals) {
"
  "    for (const auto& interval : intervals) {
      reprise::structured_output::count_work(closures.size() / 4 + closures[now_process].size());
")
change_xgrammar(cpp/grammar_functor.cc
  "    bool found = false;
    for (int i = 0; i < static_cast<int>(base_grammar_->NumRules()); ++i) {
"
  "    bool found = false;
    reprise::structured_output::count_work(base_grammar_->NumRules());
    for (int i = 0; i < static_cast<int>(base_grammar_->NumRules()); ++i) {
")
change_xgrammar(cpp/grammar_builder.h
  "  int32_t AddGrammarExpr(const GrammarExpr& grammar_expr) {
"
  "  int32_t AddGrammarExpr(const GrammarExpr& grammar_expr) {
    reprise::structured_output::count_work(1 + grammar_expr.data_len / 8);
")
change_xgrammar(cpp/grammar_builder.h
  "#include \"grammar_impl.h\"
"
  "#include \"grammar_impl.h\"
#include \"reprise/structured_output/work_limit.h\"
")

file(WRITE ${xgrammar_stamp} ${changes_hash})

# This list comes from xgrammar's folders; the archive's hash fixes their content.
file(GLOB xgrammar_files ${xgrammar_source}/cpp/*.cc ${xgrammar_source}/cpp/support/*.cc)
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_files})
target_include_directories(xgrammar SYSTEM PUBLIC
  $<BUILD_INTERFACE:${xgrammar_source}/include> $<BUILD_INTERFACE:${xgrammar_source}/3rdparty/dlpack/include>)
target_include_directories(xgrammar SYSTEM PRIVATE ${xgrammar_source}/3rdparty/picojson ${xgrammar_source}/cpp)
target_compile_features(xgrammar PRIVATE cxx_std_17)
target_compile_options(xgrammar PRIVATE -w)
# xgrammar's files are large. Small groups keep its build from taking longer than that of the other targets.
set_target_properties(xgrammar PROPERTIES UNITY_BUILD_BATCH_SIZE 4)
# Our code gets xgrammar's messages (structured_output/xgrammar_messages.cpp), so they do not go to stderr.
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
                           XGRAMMAR_LOG_CUSTOMIZE=1)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
if(REPRISE_SANITIZE)
  target_compile_options(xgrammar PRIVATE -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer)
endif()
set(XGRAMMAR_FOUND TRUE)
