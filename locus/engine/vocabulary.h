// The words of vocabulary.def as types: an enum for each list, its words, and back from a word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace locus::engine {

/// What one step of a history did.
enum class Action : std::uint8_t {
#define LOCUS_ACTION(name, word, meaning) name,
#include "locus/engine/vocabulary_lists.inc"
};

/// What an operand is to the program.
enum class Kind : std::uint8_t {
#define LOCUS_KIND(name, word, meaning) name,
#include "locus/engine/vocabulary_lists.inc"
};

/// What a broken rule is about.
enum class CaseKind : std::uint8_t {
#define LOCUS_CASE(name, word, meaning) name,
#include "locus/engine/vocabulary_lists.inc"
};

/// What could be done about a mistake.
enum class EditKind : std::uint8_t {
#define LOCUS_EDIT(name, word, meaning) name,
#include "locus/engine/vocabulary_lists.inc"
};

/// What speaks for or against a candidate.
enum class Fact : std::uint8_t {
#define LOCUS_FACT(name, word, meaning) name,
#include "locus/engine/vocabulary_lists.inc"
};

/// A word of one of the lists, with what it means.
struct Word {
  std::string_view word, meaning;
};

template <class Enum>
struct Vocabulary;

template <>
struct Vocabulary<Action> {
  static constexpr std::string_view kWhat = "an action";
  static constexpr Word kWords[] = {
#define LOCUS_ACTION(name, word, meaning) {word, meaning},
#include "locus/engine/vocabulary_lists.inc"
  };
};

template <>
struct Vocabulary<Kind> {
  static constexpr std::string_view kWhat = "a kind of operand";
  static constexpr Word kWords[] = {
#define LOCUS_KIND(name, word, meaning) {word, meaning},
#include "locus/engine/vocabulary_lists.inc"
  };
};

template <>
struct Vocabulary<CaseKind> {
  static constexpr std::string_view kWhat = "a kind of case";
  static constexpr Word kWords[] = {
#define LOCUS_CASE(name, word, meaning) {word, meaning},
#include "locus/engine/vocabulary_lists.inc"
  };
};

template <>
struct Vocabulary<EditKind> {
  static constexpr std::string_view kWhat = "a kind of edit";
  static constexpr Word kWords[] = {
#define LOCUS_EDIT(name, word, meaning) {word, meaning},
#include "locus/engine/vocabulary_lists.inc"
  };
};

template <>
struct Vocabulary<Fact> {
  static constexpr std::string_view kWhat = "a fact";
  static constexpr Word kWords[] = {
#define LOCUS_FACT(name, word, meaning) {word, meaning},
#include "locus/engine/vocabulary_lists.inc"
  };
};

template <class Enum>
inline constexpr std::size_t kCount = std::size(Vocabulary<Enum>::kWords);

template <class Enum>
concept InVocabulary = requires { Vocabulary<Enum>::kWords; };

/// "created"
template <InVocabulary Enum>
constexpr std::string_view to_string(Enum value) {
  return Vocabulary<Enum>::kWords[static_cast<std::size_t>(value)].word;
}

/// "a call made it"
template <InVocabulary Enum>
constexpr std::string_view meaning_of(Enum value) {
  return Vocabulary<Enum>::kWords[static_cast<std::size_t>(value)].meaning;
}

/// The value that a word stands for.
template <InVocabulary Enum>
constexpr std::optional<Enum> from_word(std::string_view word) {
  for (std::size_t i = 0; i < kCount<Enum>; ++i) {
    if (Vocabulary<Enum>::kWords[i].word == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

}  // namespace locus::engine
