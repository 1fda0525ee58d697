// The HTML page: word for word for some reports, well-formed and harmless for any, small however long the report.
// LOCUS_UPDATE_GOLDEN=1 writes the golden files anew.
#include "locus/report/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "locus/engine/utf8.h"
#include "locus/report/html_parts.h"
#include "locus/report/json.h"
#include "locus/version.h"
#include "tests/report/random_report.h"
#include "tests/report/schema_validator.h"

namespace locus::report {
namespace {

using testing::HasSubstr;
using testing::Not;

engine::Report golden_report(const std::string& name) {
  return parse_report(read(kRoot / "tests/report/golden" / (name + ".json")));
}

std::string render(const engine::Report& report) { return render_html(report, {.directory = "/home/me/work"}); }

/// What is on the page, without style and script.
std::string body_of(const std::string& page) {
  const std::size_t begin = page.find("<header>"), end = page.find("<script>");
  return page.substr(begin, end - begin);
}

/// A strict reader of the little HTML that the page uses. Anything else is a string that was not escaped.
class Reader {
 public:
  explicit Reader(const std::string& page) : page_(page) {}

  /// The first thing that is wrong; empty when the page is well-formed.
  std::string check() {
    if (!page_.starts_with("<!doctype html>\n")) return "no doctype";
    for (at_ = page_.find('\n'); at_ < page_.size() && wrong_.empty();) {
      if (page_[at_] == '<') {
        tag();
      } else {
        character();
      }
    }
    if (wrong_.empty() && !open_.empty()) wrong_ = "never closed: " + open_.back();
    return wrong_;
  }

 private:
  void fail(const std::string& what) { wrong_ = what + " at …" + page_.substr(at_ > 60 ? at_ - 60 : 0, 160) + "…"; }

  void character() {
    const auto c = static_cast<unsigned char>(page_[at_]);
    if ((c < 0x20 && c != '\n') || c == 0x7f) return fail("a control character");
    if (c == '>' || c == '"' || c == '\'') {
      if (c == '>') return fail("a stray >");
    }
    if (c == '&' && !page_.compare(at_, 1, "&") && page_.find(';', at_) > at_ + 7) return fail("a stray &");
    ++at_;
  }

  void tag() {
    static const std::set<std::string> kTags = {
        "html",    "head",  "meta",   "title", "style",  "body",       "a",       "header", "div", "h1",  "p",
        "small",   "dl",    "dt",     "dd",    "nav",    "main",       "section", "h2",     "h3",  "h4",  "table",
        "tbody",   "thead", "tr",     "th",    "td",     "caption",    "span",    "code",   "ins", "del", "details",
        "summary", "b",     "button", "input", "figure", "figcaption", "mark",    "ol",     "li",  "ul",  "i",
        "svg",     "line",  "path",   "wbr",   "footer", "script",     "rect",    "br"};
    static const std::set<std::string> kVoid = {"meta", "input", "wbr", "line", "path", "br"};
    const bool closing = page_[at_ + 1] == '/';
    std::size_t end = at_ + (closing ? 2 : 1);
    const std::size_t begin = end;
    while (end < page_.size() && std::isalnum(static_cast<unsigned char>(page_[end])) != 0) ++end;
    const std::string name = page_.substr(begin, end - begin);
    if (!kTags.contains(name)) return fail("an unknown tag <" + name);
    if (closing) {
      if (open_.empty() || open_.back() != name || page_[end] != '>') return fail("a wrong </" + name);
      open_.pop_back();
      at_ = end + 1;
      return;
    }
    at_ = end;
    if (!attributes()) return;
    if (kVoid.contains(name)) return;
    open_.push_back(name);
    if (name == "style" || name == "script") {
      at_ = page_.find("</" + name + ">", at_);
      if (at_ == page_.npos) at_ = page_.size(), fail("an endless <" + name);
    }
  }

  bool attributes() {
    static const std::set<std::string> kKnown = {"lang",
                                                 "charset",
                                                 "name",
                                                 "content",
                                                 "http",
                                                 "class",
                                                 "id",
                                                 "href",
                                                 "title",
                                                 "style",
                                                 "open",
                                                 "hidden",
                                                 "type",
                                                 "placeholder",
                                                 "aria",
                                                 "role",
                                                 "scope",
                                                 "viewBox",
                                                 "preserveAspectRatio",
                                                 "x1",
                                                 "x2",
                                                 "y1",
                                                 "y2",
                                                 "d",
                                                 "rel",
                                                 "x",
                                                 "y",
                                                 "width",
                                                 "height"};
    for (;;) {
      while (page_[at_] == ' ') ++at_;
      if (page_[at_] == '/' && page_[at_ + 1] == '>') ++at_;
      if (page_[at_] == '>') return ++at_, true;
      std::size_t end = page_.find_first_of("=> -", at_);
      const std::string name = page_.substr(at_, end - at_);
      if (!kKnown.contains(name)) return fail("an unknown attribute " + name), false;
      end = page_.find_first_of("=> ", at_);
      at_ = end;
      if (page_[at_] != '=') continue;
      const bool quoted = page_[++at_] == '"';
      const std::size_t start = quoted ? at_ + 1 : at_;
      end = page_.find_first_of(quoted ? "\"" : " >", start);
      const std::string value = page_.substr(start, end - start);
      if (value.find_first_of("<>") != value.npos) return fail("markup in an attribute"), false;
      if (name == "href" && !value.starts_with('#') && !value.starts_with(kDocumentation))
        return fail("a link out of the page"), false;
      at_ = quoted ? end + 1 : end;
    }
  }

  const std::string& page_;
  std::size_t at_ = 0;
  std::vector<std::string> open_;
  std::string wrong_;
};

/// Large pages are one thread's work, and take the thread sanitizer half a minute each.
#ifdef __SANITIZE_THREAD__
#define SKIP_WITH_THREAD_SANITIZER() GTEST_SKIP() << "nothing here runs in threads"
#else
#define SKIP_WITH_THREAD_SANITIZER()
#endif

TEST(Html, IsWordForWord) {
  for (const char* name : {"LOC003", "many", "nothing", "page"}) {
    SCOPED_TRACE(name);
    engine::Report report = golden_report(name);
    report.program.locus = "1.2.3";
    const std::string body = body_of(render(report));
    const auto golden = kRoot / "tests/report/golden/html" / (std::string(name) + ".html");
    if (std::getenv("LOCUS_UPDATE_GOLDEN") != nullptr) std::ofstream(golden, std::ios::binary) << body;
    EXPECT_EQ(body, read(golden));
  }
}

TEST(Html, TheReaderSeesWhatIsWrong) {
  std::string page = render(golden_report("LOC003"));
  EXPECT_EQ(Reader(page).check(), "");
  for (const char* hostile :
       {"<img src=x>", "<b onclick=x>", "</div>", "<script", "<a href=\"http://x\">", "\x01", "<"}) {
    std::string broken = page;
    broken.insert(broken.find("<main"), hostile);
    EXPECT_NE(Reader(broken).check(), "") << hostile;
  }
}

TEST(Html, AnythingIsHarmless) {
  for (int seed = 0; seed < rounds(); ++seed) {
    SCOPED_TRACE(seed);
    Source source(static_cast<unsigned>(seed));
    const std::string page = render(source.report());
    ASSERT_EQ(Reader(page).check(), "");
    ASSERT_TRUE(engine::valid_utf8(page) == page);
    ASSERT_LT(page.size(), kMaxPageBytes);
    ASSERT_THAT(body_of(page), Not(HasSubstr("<img")));
  }
}

TEST(Html, EscapesEverywhere) {
  EXPECT_EQ(escape("<a b=\"c\" d='e'>&"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;");
  EXPECT_EQ(html_prose("`<b>` and `x"), "<code>&lt;b&gt;</code> and `x");
  EXPECT_EQ(device_chip("\"><b>"), "<span class=\"chip dx\">&quot;&gt;&lt;b&gt;</span>");
  EXPECT_EQ(html_words("a\xff\x1b[31m\nb"), "a\uFFFD␛[31m b");
}

TEST(Html, ColorsDevices) {
  EXPECT_EQ(device_class("cpu"), "cpu");
  EXPECT_EQ(device_class("cuda:0"), "d0");
  EXPECT_EQ(device_class("cuda:11"), "d3");
  EXPECT_EQ(device_class("cuda"), "d0");
  EXPECT_EQ(device_class("meta"), "dx");
  EXPECT_EQ(device_class("cuda:x"), "dx");
}

TEST(Html, MarksWhatAnEditChanges) {
  EXPECT_EQ(html_changed_line("f(a)", "f(a.to(d))", "ins"), "f(a<ins>.to(d)</ins>)");
  EXPECT_EQ(html_changed_line("", "x = y", "ins"), "<ins>x = y</ins>");
  EXPECT_EQ(html_changed_line("same", "same", "ins"), "same");
  EXPECT_EQ(html_changed_line("aa", "aaa", "ins"), "aa<ins>a</ins>");
}

TEST(Html, TenThousandLinesStaySmall) {
  SKIP_WITH_THREAD_SANITIZER();
  engine::Report report = golden_report("page");
  for (int i = 0; i < 10'000; ++i) {
    const std::string file = "/home/me/work/a_package_of_some_depth/with/modules/module_" + std::to_string(i) + ".py";
    report.transfers.push_back({file, i + 1, "cpu", "cuda:0", 100, 1 << 20, "non_blocking, not pinned"});
    report.syncs.push_back({file, i + 1, "aten::_local_scalar_dense", 7});
    report.memory.front().by_line.push_back({file, i + 1, 1 << 20, 3});
  }
  const std::string page = render(report);
  EXPECT_LT(page.size(), 600'000u);
  EXPECT_EQ(Reader(page).check(), "");
  EXPECT_THAT(page, HasSubstr("All of them are in the JSON report"));
}

TEST(Html, ThousandsOfFindingsStaySmall) {
  SKIP_WITH_THREAD_SANITIZER();
  engine::Report report = golden_report("page");
  const engine::Finding finding = report.findings.front();
  for (const std::size_t count : {1'000u, 10'000u}) {
    report.findings.assign(count, finding);
    const std::string page = render(report);
    EXPECT_LT(page.size(), kMaxPageBytes);
    EXPECT_EQ(Reader(page).check(), "");
    EXPECT_THAT(page, HasSubstr(count == 1'000 ? "1,000 findings" : "10,000 findings"));
  }
}

TEST(Html, LargeModelsAndLongNamesStaySmall) {
  SKIP_WITH_THREAD_SANITIZER();
  engine::Report report = golden_report("page");
  const std::string name(5'000, 'n');
  report.models.assign(20, {name, name, {}, 7});
  for (engine::Model& model : report.models) {
    for (int i = 0; i < 5'000; ++i) {
      model.rows.push_back(
          {i % 300, name, name, i % 4 == 3 ? "parameter" : "module", "cuda:0", {1, 2}, "float32", 8, true});
    }
  }
  report.findings.front().culprit.name = report.findings.front().why = name;
  for (engine::Step& step : report.findings.front().history) step.at.text = name + "x";
  const std::string page = render(report);
  EXPECT_LT(page.size(), kMaxPageBytes);
  EXPECT_EQ(Reader(page).check(), "");
}

TEST(Html, SaysWhatIsNewIgnoredGoneAndNotRun) {
  engine::Report report = golden_report("page");
  ASSERT_GE(report.findings.size(), 2u);
  for (std::size_t i = 0; i < report.findings.size(); ++i) report.findings[i].id = "id" + std::to_string(i);
  report.ignored = {
      {"a", "LOC004", "/w/a.py", 7, "a comment at a.py:7: <b>on purpose</b>", "comment", "add() got two"}};
  report.not_run = {{"/w/net.py", "Net.sample", 30}, {"/w/other.py", "", 0}};
  std::string page = render(report);
  EXPECT_EQ(Reader(page).check(), "");
  EXPECT_THAT(page, HasSubstr(", 1 ignored"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;on purpose&lt;/b&gt;"));
  EXPECT_THAT(page, HasSubstr("Net.sample"));
  EXPECT_THAT(page, HasSubstr("the whole file"));
  EXPECT_THAT(page, Not(HasSubstr(">known<")));

  engine::Comparison& since = report.baseline.emplace();
  since.file = "baseline.json", since.new_ids = {"id0"};
  since.known = static_cast<std::int64_t>(report.findings.size()) - 1;
  since.gone = {{"c", "LOC003", "/w/c.py", 9, "", "", "mul() got cuda:0 and cpu"}};
  since.more = {{"transfer", "/w/d.py", 5, "cpu → cuda:0", 3, 12}};
  page = render(report);
  EXPECT_EQ(Reader(page).check(), "");
  EXPECT_THAT(page, HasSubstr("1 new finding, 1 line costs more <small>since baseline.json ("));
  EXPECT_THAT(page, HasSubstr("<span class=\"tag new\">new</span>"));
  EXPECT_THAT(page, HasSubstr("<span class=tag>known</span>"));
  EXPECT_THAT(page, HasSubstr("<td>3 times</td><td>12 times</td>"));
  EXPECT_THAT(page, HasSubstr("<td>found</td><td>gone</td>"));

  report.baseline->new_ids.clear(), report.baseline->more.clear();
  EXPECT_THAT(render(report), HasSubstr("<p class=\"verdict ok\">No new findings"));
}

TEST(Html, DrawsWhatMemoryWasForOneOnTheOther) {
  engine::Report report = golden_report("page");
  engine::DeviceMemory& device = report.memory.at(0);
  const std::size_t points = device.timeline.high.size();
  ASSERT_GE(points, 2U);
  const std::vector<std::int64_t> much(points, 3 << 20), little(points, 1 << 20), short_row(points - 1, 1 << 20);
  device.timeline.by_category = {{"activations", much}, {"parameters", little}, {"of another version", short_row}};
  const std::string page = render(report);
  EXPECT_EQ(Reader(page).check(), "");
  // What is highest in the stack is drawn first, and what is largest is said first.
  const std::size_t upper = page.find("<path class=\"kind d0\""), lower = page.find("<path class=\"kind d1\"");
  ASSERT_NE(upper, std::string::npos);
  EXPECT_LT(upper, lower);
  EXPECT_THAT(page, HasSubstr("\nactivations 3.0 MiB\nparameters 1.0 MiB</title>"));
  EXPECT_THAT(page, Not(HasSubstr("of another version")));
}

TEST(Html, ShowsActivationsByModule) {
  engine::Report report = golden_report("page");
  ASSERT_FALSE(report.memory.empty());
  report.memory.front().by_module = {{"Block", 3 << 20}};
  EXPECT_THAT(render(report), Not(HasSubstr("by the module whose code made them"))) << "one is all of them";
  report.memory.front().by_module.push_back({"<b>", 1 << 20});
  const std::string page = render(report);
  EXPECT_EQ(Reader(page).check(), "");
  EXPECT_THAT(page, HasSubstr("<code>Block</code></td><td class=n>3.0 MiB</td>"));
  EXPECT_THAT(page, HasSubstr("<code>&lt;b&gt;</code>"));
}

TEST(Html, SaysWhatADryRunMadeUp) {
  engine::Report report = golden_report("page");
  EXPECT_THAT(render(report), Not(HasSubstr("id=dry")));
  engine::DryRun& dry = report.dry.emplace();
  dry.shapes = "half";
  EXPECT_THAT(render(report), HasSubstr("Nothing that the program read was made up."));
  dry.made_up = {{"/w/a.py", 7, "value", "aten::_local_scalar_dense", 12, 0, ""},
                 {"/w/b.py", 0, "shape", "aten::nonzero", 1, 0, ""},
                 {"/w/<b>.py", 9, "memory", "aten::mm", 2, 1 << 30, ""}};
  const std::string page = render(report);
  EXPECT_EQ(Reader(page).check(), "");
  EXPECT_THAT(page, HasSubstr("<a href=\"#dry\">Dry run</a>"));
  EXPECT_THAT(page, HasSubstr("<code>.item()</code></td><td>12</td>"));
  EXPECT_THAT(page, HasSubstr("a shape that hangs on values (half)</td><td>in backward</td>"));
  EXPECT_THAT(page, HasSubstr("more memory than the card has, by 1.0 GiB"));
  EXPECT_THAT(page, Not(HasSubstr("<b>.py")));
}

}  // namespace
}  // namespace locus::report
