#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "chat_template/chat_template.h"

namespace octavo::chat_template {
namespace {

using Json = nlohmann::ordered_json;

/// What jinja2 3.1 makes of `source`, as JSON strings.
struct Golden {
  const char* source;
  const char* variables;
  const char* text;
};
constexpr Golden kGolden[] = {
    {R"~({{ t|wordwrap(7) }})~",
     R"~({"t": "-5  well-known e-mailwell-known\n\"quoted\" self--made  "})~",
     R"~("-5\nwell-\nknown e\n-mailwe\nll-\nknown\n\"quoted\n\" self\n--made")~"},
    {R"~({{ t|wordwrap(10, break_on_hyphens=false) }})~",
     R"~({"t": "self--made\nab-c -- well-known\n"})~", R"~("self--made\nab-c --\nwell-known")~"},
    {R"~({{ t|wordwrap(9) }})~", R"~({"t": "end. "})~", R"~("end.")~"},
    {R"~({{ t|wordwrap(2, wrapstring='|') }})~",
     R"~({"t": "ab-1c --\n!--go\n\u00e9t\u00e9-l\u00e0 don't"})~",
     R"~("ab|-1|c|--|!|--|go|\u00e9t|\u00e9-|l\u00e0|do|n'|t")~"},
    {R"~({{ t|wordwrap(11, wrapstring='|') }})~", R"~({"t": "well-known\n\"quoted\"  "})~",
     R"~("well-known|\"quoted\"")~"},
    {R"~({{ t|wordwrap(12, break_on_hyphens=false) }})~",
     R"~({"t": "\u6f22\u5b57    !--go \u00e9t\u00e9-l\u00e0 self--made\n!--go\n\u00a0"})~",
     R"~("\u6f22\u5b57    !--go\n\u00e9t\u00e9-l\u00e0\nself--made\n!--go\n")~"},
    {R"~({{ t|wordwrap(11) }})~", R"~({"t": "x-ray a--b--cd  a-b-c-5  ab-1c "})~",
     R"~("x-ray a--b\n--cd\na-b-c-5\nab-1c")~"},
    {R"~({{ t|wordwrap(11, wrapstring='|') }})~",
     R"~({"t": "under_score\u00a0\n   self--made\t well-known"})~",
     R"~("under_score|   self--|made\t well-|known")~"},
    {R"~({{ t|wordwrap(7, break_on_hyphens=false) }})~",
     R"~({"t": "ab-cd-  verylongwordindeed   a-b-c\n--  well-known ab-cd- 2-3  "})~",
     R"~("ab-cd-\nverylon\ngwordin\ndeed\na-b-c\n--  wel\nl-known\nab-cd-\n2-3")~"},
    {R"~({{ t|wordwrap(5) }})~", R"~({"t": "a-b-c  ok,--so\n"})~", R"~("a-b-c\nok,--\nso")~"},
    {R"~({{ t|wordwrap(3, break_long_words=false) }})~",
     R"~({"t": "ab-cd  verylongwordindeed  end. self--made -5 end. \u00a0\n"})~",
     R"~("ab-\ncd\nverylongwordindeed\nend.\nself\n--\nmade\n-5\nend.")~"},
    {R"~({{ t|wordwrap(11) }})~", R"~({"t": "a ab-1c\n------\n\u6f22\u5b57 a--b--cd\n"})~",
     R"~("a ab-1c\n------\n\u6f22\u5b57 a--b--cd")~"},
    {R"~({{ t|wordwrap(1) }})~",
     R"~({"t": "ok,--so  ok,--so  e-mail  ok,--so don't \"quoted\"  a-b-c under_score\n"})~",
     R"~("o\nk\n,\n-\n-\ns\no\no\nk\n,\n-\n-\ns\no\ne\n-\nm\na\ni\nl\no\nk\n,\n-\n-\ns\no\nd\no\nn\n'\nt\n\"\nq\nu\no\nt\ne\nd\n\"\na\n-\nb\n-\nc\nu\nn\nd\ne\nr\n_\ns\nc\no\nr\ne")~"},
    {R"~({{ t|wordwrap(2, break_long_words=false) }})~", R"~({"t": "-5\n"})~", R"~("-5")~"},
    {R"~({{ t|wordwrap(10, break_on_hyphens=false) }})~", R"~({"t": "x-ray "})~", R"~("x-ray")~"},
    {R"~({{ t|wordwrap(14, break_on_hyphens=false) }})~", R"~({"t": "aa-b------  -- "})~",
     R"~("aa-b------  --")~"},
    {R"~({{ t|wordwrap(5) }})~", R"~({"t": "\t  !--go -5 under_score\t to ------ to\n"})~",
     R"~("\t  !\n--go\n-5 un\nder_s\ncore\nto --\n----\nto")~"},
    {R"~({{ t|wordwrap(14, break_on_hyphens=false) }})~",
     R"~({"t": "------ verylongwordindeed a--b--cdend.\ndon't "})~",
     R"~("------ verylon\ngwordindeed\na--b--cdend.\ndon't")~"},
    {R"~({{ t|wordwrap(5) }})~", R"~({"t": "don't\n\u00a0to ab-cd  "})~",
     R"~("don't\n\u00a0to\nab-cd")~"},
    {R"~({{ t|wordwrap(10, wrapstring='|') }})~",
     R"~({"t": "one------- end. end.  don't\"quoted\"  "})~",
     R"~("one-------|end. end.|don't\"quot|ed\"")~"},
    {R"~({{ t|wordwrap(13) }})~", R"~({"t": "\t"})~", R"~("")~"},
    {R"~({{ t|wordwrap(7, break_long_words=false) }})~", R"~({"t": "a--b \t "})~", R"~("a--b")~"},
    {R"~({{ t|wordwrap(12) }})~", R"~({"t": "ok,--so  ok,--so "})~", R"~("ok,--so  ok,\n--so")~"},
    {R"~({{ t|wordwrap(10, wrapstring='|') }})~", R"~({"t": "- -5\n   "})~", R"~("- -5|")~"},
    {R"~({{ t|wordwrap(13, wrapstring='|') }})~",
     R"~({"t": "verylongwordindeed - a -  don't to\"quoted\"a--b--cd "})~",
     R"~("verylongwordi|ndeed - a -|don't|to\"quoted\"a--|b--cd")~"},
    {R"~({{ t|wordwrap(3, wrapstring='|') }})~",
     R"~({"t": "aa-b\nab-1c well-known  \nab-1c\n-\n"})~",
     R"~("aa-|b|ab-|1c |wel|l-k|now|n|ab-|1c|-")~"},
    {R"~({{ t|wordwrap(10) }})~", R"~({"t": "one- "})~", R"~("one-")~"},
    {R"~({{ t|wordwrap(1, break_long_words=false) }})~",
     R"~({"t": "\u00e9t\u00e9-l\u00e0 \t\n--\n"})~", R"~("\u00e9t\u00e9-\nl\u00e0\n--")~"},
    {R"~({{ t|wordwrap(9) }})~",
     R"~({"t": "e-mail\nwell-known don'tthe a--b--cd  to one-a--b--cd\n"})~",
     R"~("e-mail\nwell-\nknown\ndon'tthe\na--b--cd\nto one-a\n--b--cd")~"},
    {R"~({{ t|wordwrap(3, break_on_hyphens=false) }})~",
     R"~({"t": "one-\n\t\n2-3\naa-b\ndon't  "})~", R"~("one\n-\n\n2-3\naa-\nb\ndon\n't")~"},
    {R"~({{ t|wordwrap(11) }})~", R"~({"t": "ok,--so  \u6f22\u5b57 "})~",
     R"~("ok,--so  \u6f22\u5b57")~"},
    {R"~({{ t|wordwrap(3) }})~", R"~({"t": "x-ray !--go -5-5-  end. ok,--so  "})~",
     R"~("x-\nray\n!--\ngo \n-5-\n5-\nend\n.\nok,\n--\nso")~"},
    {R"~({{ t|wordwrap(6, break_long_words=false) }})~", R"~({"t": "ab-c\nok,--soab-1c "})~",
     R"~("ab-c\nok,--\nsoab-1c")~"},
    {R"~({{ t|wordwrap(8, break_on_hyphens=false) }})~", R"~({"t": "------ under_score\n"})~",
     R"~("------ u\nnder_sco\nre")~"},
    {R"~({{ t|wordwrap(9, wrapstring='|') }})~", R"~({"t": "a--b"})~", R"~("a--b")~"},
    {R"~({{ t|wordwrap(5) }})~", R"~({"t": "a--b--cd -- e-mail aa-bthe "})~",
     R"~("a--b\n--cd\n-- e-\nmail\naa-\nbthe")~"},
    {R"~({{ t|wordwrap(5) }})~",
     R"~({"t": "aa-b  -5\na--b--cd\n\u00a0self--madewell-known ab-c "})~",
     R"~("aa-b\n-5\na--b\n--cd\n\u00a0self\n--mad\newell\n-\nknown\nab-c")~"},
    {R"~({{ t|wordwrap(5) }})~", R"~({"t": "aa-b end. "})~", R"~("aa-b\nend.")~"},
    {R"~({{ t|wordwrap(13) }})~", R"~({"t": "aab-1c- 2-3 a-b-cwell-known don't!--go\n"})~",
     R"~("aab-1c- 2-3\na-b-cwell-\nknown don't!\n--go")~"},
    {R"~({{ t|wordwrap(12, wrapstring='|') }})~",
     R"~({"t": "one-\n\u00e9t\u00e9-l\u00e0verylongwordindeed aa-b a "})~",
     R"~("one-|\u00e9t\u00e9-l\u00e0verylo|ngwordindeed|aa-b a")~"},
    {R"~({{ t|wordwrap(14, break_on_hyphens=false) }})~",
     R"~({"t": "a--b--cd  2-3  e-mail  \u00a0\n"})~", R"~("a--b--cd  2-3\ne-mail  ")~"},
    {R"~({{ t|wordwrap(2, break_long_words=false) }})~",
     R"~({"t": "\"quoted\" under_score -  verylongwordindeed - "})~",
     R"~("\"quoted\"\nunder_score\n-\nverylongwordindeed\n-")~"},
    {R"~({{ t|wordwrap(1, break_long_words=false) }})~",
     R"~({"t": "a-b-c self--made  a--b--cd2-3the  \u00e9t\u00e9-l\u00e0 ab-cd  "})~",
     R"~("a-b-c\nself\n--\nmade\na\n--\nb\n--\ncd2-3the\n\u00e9t\u00e9-\nl\u00e0\nab-\ncd")~"},
    {R"~({{ t|wordwrap(2, break_on_hyphens=false) }})~",
     R"~({"t": "under_score\n\u6f22\u5b57 the\"quoted\"\u00e9t\u00e9-l\u00e0 under_score  "})~",
     R"~("un\nde\nr_\nsc\nor\ne\n\u6f22\u5b57\nth\ne\"\nqu\not\ned\n\"\u00e9\nt\u00e9\n-l\n\u00e0 \nun\nde\nr_\nsc\nor\ne")~"},
    {R"~({{ t|wordwrap(10) }})~", R"~({"t": "a--b--cd 2-3\na aa-b -5  "})~",
     R"~("a--b--cd\n2-3\na aa-b -5")~"},
    {R"~({{ t|wordwrap(11) }})~", R"~({"t": "to!--go self--made\n-5\na--b\u00a0 ab-cd-\n"})~",
     R"~("to!--go\nself--made\n-5\na--b\u00a0 ab-\ncd-")~"},
    {R"~({{ t|wordwrap(12, wrapstring='|') }})~", R"~({"t": "a--b--cd  "})~", R"~("a--b--cd")~"},
    {R"~({{ t|wordwrap(1) }})~", R"~({"t": "a--b--cd\nto\nend. "})~",
     R"~("a\n-\n-\nb\n-\n-\nc\nd\nt\no\ne\nn\nd\n.")~"},
    {R"~({{ t|wordwrap(11, wrapstring='|') }})~", R"~({"t": "------ a--b  well-known "})~",
     R"~("------ a--b|well-known")~"},
    {R"~({{ t|wordwrap(2, break_on_hyphens=false) }})~",
     R"~({"t": "\u00a0a  x-ray\nself--made\n"})~", R"~("\u00a0a\nx-\nra\ny\nse\nlf\n--\nma\nde")~"},
    {R"~({{ t|wordwrap(11, break_long_words=false) }})~",
     R"~({"t": "x-ray2-3 end.  \u00a0  x-ray  "})~", R"~("x-ray2-3\nend.  \u00a0\nx-ray")~"},
    {R"~({{ t|wordwrap(10) }})~", R"~({"t": "don't "})~", R"~("don't")~"},
    {R"~({{ t|wordwrap(12, wrapstring='|') }})~", R"~({"t": "aa-b- \t \u00a0e-mail \u00a0"})~",
     R"~("aa-b-|\u00a0e-mail ")~"},
    {R"~({{ t|wordwrap(8) }})~", R"~({"t": "       don'tself--made  to"})~",
     R"~("       d\non'tself\n--made\nto")~"},
    {R"~({{ t|wordwrap(4, break_on_hyphens=false) }})~",
     R"~({"t": "ab-cd  \"quoted\" x-ray\nself--made aa-b-\na--b--cd--"})~",
     R"~("ab-c\nd  \"\nquot\ned\" \nx-ra\ny\nself\n--ma\nde a\na-b-\na--b\n--cd\n--")~"},
    {R"~({{ t|wordwrap(6, break_long_words=false) }})~",
     R"~({"t": "ok,--so a-b-c \u00a0  ok,--so-5  verylongwordindeed  \u6f22\u5b57 under_score "})~",
     R"~("ok,--\nso\na-b-c\n  ok,\n--so-5\nverylongwordindeed\n\u6f22\u5b57\nunder_score")~"},
    {R"~({{ t|wordwrap(14) }})~", R"~({"t": "-- aaa-bx-ray  a--b\nx-rayab-c"})~",
     R"~("-- aaa-bx-ray\na--b\nx-rayab-c")~"},
    {R"~({{ t|wordwrap(13, break_long_words=false) }})~",
     R"~({"t": "e-mail ab-cd- 2-3ab-c\n\u6f22\u5b57 "})~",
     R"~("e-mail ab-cd-\n2-3ab-c\n\u6f22\u5b57")~"},
    {R"~({{ t|wordwrap(8, break_on_hyphens=false) }})~",
     R"~({"t": "to  \"quoted\" well-known  one-\n-\u00a0 - "})~",
     R"~("to\n\"quoted\"\nwell-kno\nwn  one-\n-\u00a0 -")~"},
    {R"~({{ t|wordwrap(2) }})~", R"~({"t": "ab-cd-aa-bok,--so !--go  ok,--so a-b-c "})~",
     R"~("ab\n-c\nd-\naa\n-b\nok\n,\n--\nso\n!\n--\ngo\nok\n,\n--\nso\na-\nb-\nc")~"},
    {R"~({{ t|wordwrap(5, wrapstring='|') }})~",
     R"~({"t": "end.  under_score  ab-c don't self--made under_score\nself--made2-3"})~",
     R"~("end.|under|_scor|e|ab-c|don't|self|--|made |under|_scor|e|self|--mad|e2-3")~"},
    {R"~({{ t|wordwrap(13) }})~", R"~({"t": "to  a--b  \"quoted\"  ab-cd"})~",
     R"~("to  a--b\n\"quoted\"  ab-\ncd")~"},
    {R"~({{ t|wordwrap(3) }})~",
     R"~({"t": "ab-cd\n------ a--b--cd\n\"quoted\" ab-cd a--b  one-  !--go "})~",
     R"~("ab-\ncd\n---\n---\na--\nb--\ncd\n\"qu\note\nd\"\nab-\ncd\na--\nb  \none\n-\n!--\ngo")~"},
    {R"~({{ t|wordwrap(11) }})~", R"~({"t": "\t\n\u00a0 x-ray      2-3 end. -5\n"})~",
     R"~("\n\u00a0 x-ray\n2-3 end. -5")~"},
    {R"~({{ t|wordwrap(10) }})~", R"~({"t": "self--made\nthe - the-ab-c e-mail !--go\n"})~",
     R"~("self--made\nthe - the-\nab-c\ne-mail !--\ngo")~"},
    {R"~({{ t|wordwrap(7, break_long_words=false) }})~",
     R"~({"t": "aa-b a !--go  ab-cd2-3  2-3\n2-3 "})~",
     R"~("aa-b a\n!--go\nab-\ncd2-3\n2-3\n2-3")~"},
    {R"~({{ t|wordwrap(8, break_on_hyphens=false) }})~", R"~({"t": "to "})~", R"~("to")~"},
    {R"~({{ t|wordwrap(4, break_on_hyphens=false) }})~", R"~({"t": "aa-b ab-c"})~",
     R"~("aa-b\nab-c")~"},
    {R"~({{ t|wordwrap(6, break_on_hyphens=false) }})~", R"~({"t": "under_score  "})~",
     R"~("under_\nscore")~"},
    {R"~({{ t|wordwrap(13) }})~", R"~({"t": "aa--b--cd \"quoted\"  don't"})~",
     R"~("aa--b--cd\n\"quoted\"\ndon't")~"},
    {R"~({{ t|wordwrap }})~",
     R"~({"t": "The quick brown fox jumps over the lazy dog and keeps running-away until the well-known end of this long line."})~",
     R"~("The quick brown fox jumps over the lazy dog and keeps running-away until the\nwell-known end of this long line.")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 0})~", R"~("0 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 0})~", R"~("0 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1})~", R"~("1 Byte")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1})~", R"~("1 Byte")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1.0})~", R"~("1 Byte")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1.0})~", R"~("1 Byte")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 2})~", R"~("2 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 2})~", R"~("2 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 999})~", R"~("999 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 999})~", R"~("999 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 999.9})~", R"~("999 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 999.9})~", R"~("999 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1000})~", R"~("1.0 kB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1000})~", R"~("1000 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1023})~", R"~("1.0 kB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1023})~", R"~("1023 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1024})~", R"~("1.0 kB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1024})~", R"~("1.0 KiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1500})~", R"~("1.5 kB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1500})~", R"~("1.5 KiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 123456})~", R"~("123.5 kB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 123456})~", R"~("120.6 KiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1000000})~", R"~("1.0 MB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1000000})~", R"~("976.6 KiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 12345678901})~", R"~("12.3 GB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 12345678901})~", R"~("11.5 GiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1500000000000000.0})~", R"~("1.5 PB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1500000000000000.0})~", R"~("1.3 PiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 1e+27})~", R"~("1000.0 YB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 1e+27})~", R"~("827.2 YiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": 3e+30})~", R"~("3000000.0 YB")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": 3e+30})~", R"~("2481541.8 YiB")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": -5})~", R"~("-5 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": -5})~", R"~("-5 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": -2000})~", R"~("-2000 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": -2000})~", R"~("-2000 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": "300"})~", R"~("300 Bytes")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": "300"})~", R"~("300 Bytes")~"},
    {R"~({{ n|filesizeformat() }})~", R"~({"n": "1"})~", R"~("1 Byte")~"},
    {R"~({{ n|filesizeformat(true) }})~", R"~({"n": "1"})~", R"~("1 Byte")~"},
    {R"~({{ d|xmlattr }})~",
     R"~({"d": {"class": "a<b", "id": 5, "skip": null, "q": "say \"hi\""}})~",
     R"~(" class=\"a&lt;b\" id=\"5\" q=\"say &#34;hi&#34;\"")~"},
    {R"~({{ d|xmlattr(false) }})~", R"~({"d": {"class": "x", "\u00e9": 1.5}})~",
     R"~("class=\"x\" \u00e9=\"1.5\"")~"},
    {R"~({{ d|xmlattr }})~", R"~({"d": {}})~", R"~("")~"},
    {R"~({{ d|xmlattr }})~", R"~({"d": {"a": null}})~", R"~("")~"},
};

Result<Rendered> render(const char* source, const Json& variables) {
  auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) return compiled.error();
  RenderInput input;
  input.variables = &variables;
  return compiled->render(input);
}

TEST(LayoutFilters, GiveWhatJinjaGives) {
  for (const Golden& golden : kGolden) {
    const auto out = render(golden.source, Json::parse(golden.variables));
    ASSERT_TRUE(out.ok()) << golden.source << ": " << out.error().message;
    EXPECT_EQ(out->text, Json::parse(golden.text).get<std::string>())
        << golden.source << " of " << golden.variables;
  }
}

TEST(LayoutFilters, RefuseWhatJinjaRefuses) {
  const Json variables = {{"d", {{"a b", 1}}}, {"t", "text"}, {"n", "many"}};
  for (const char* source :
       {"{{ t|wordwrap(0) }}", "{{ t|wordwrap(-3) }}", "{{ t|xmlattr }}", "{{ d|xmlattr }}",
        "{{ n|filesizeformat }}", "{{ none|filesizeformat }}", "{{ missing|filesizeformat }}"}) {
    EXPECT_FALSE(render(source, variables).ok()) << source;
  }
}

TEST(LayoutFilters, WordwrapIsLinearInHostileText) {
  for (const char* piece : {"-", "a-", "a--", " ", "x"}) {
    std::string text;
    while (text.size() < 200'000) text += piece;
    (void)render("{{ t|wordwrap(20) }}", Json{{"t", text}});  // an answer or the step limit
  }
}

}  // namespace
}  // namespace octavo::chat_template
