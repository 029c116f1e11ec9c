find_package(GTest REQUIRED)
add_custom_target(unit_tests)  # every binary with the label unit

# octavo_test(name SOURCES... LINK targets...): one GoogleTest binary, one ctest
# entry, or SHARDS entries that share its tests out.
function(octavo_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;LABEL;SHARDS" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  octavo_options(${name})
  target_compile_definitions(${name} PRIVATE OCTAVO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(OCTAVO_SANITIZE)
    math(EXPR ARG_TIMEOUT "4 * ${ARG_TIMEOUT}")  # some ten times slower
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_SHARDS)
    set(ARG_SHARDS 1)
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    set(entry ${name})
    if(ARG_SHARDS GREATER 1)
      set(entry ${name}_${shard})
    endif()
    add_test(NAME ${entry} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
    set(environment "GTEST_TOTAL_SHARDS=set:${ARG_SHARDS}" "GTEST_SHARD_INDEX=set:${shard}")
    if(OCTAVO_SANITIZE AND ARG_LABEL STREQUAL "golden")
      # The real model runs no line that the tiny kits do not run.
      list(APPEND environment "OCTAVO_TEST_HF=unset:" "OCTAVO_TEST_GGUF=unset:")
    endif()
    set_tests_properties(${entry} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${ARG_LABEL}
                         ENVIRONMENT_MODIFICATION "${environment}")
  endforeach()
  if(ARG_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${name})
  endif()
endfunction()

foreach(room base config observability device kernels checkpoint model engine tokenizer
        chat_template frontend openai server client health bench cli)
  file(GLOB_RECURSE tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${room}/*_test.cc)
  if(tests)
    octavo_test(${room}_test SOURCES ${tests} LINK octavo_${room})
  endif()
endforeach()

# What crosses rooms: one binary per folder.
set(property_link octavo_engine)
set(kernels_link octavo_kernels)
set(golden_link octavo_engine octavo_tokenizer nlohmann_json::nlohmann_json)
foreach(folder property kernels golden)
  file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*_test.cc)
  if(tests)
    set(shards 1)
    if(folder MATCHES "kernels|golden")
      set(shards 2)  # the longest
    endif()
    octavo_test(${folder}_test SOURCES ${tests} LINK ${${folder}_link} TIMEOUT 2400 LABEL ${folder}
                SHARDS ${shards})
  endif()
endforeach()

# tests/no_compile/*.cc must be refused, for the reason that their first line names.
file(GLOB misuses CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/no_compile/*.cc)
foreach(source ${misuses})
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} first LIMIT_COUNT 1)
  string(REPLACE "// expect: " "" reason "${first}")
  add_test(NAME no_compile_${name} COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -fsyntax-only -Wall
           -Wextra -Werror -I${PROJECT_SOURCE_DIR}/src ${source})
  set_tests_properties(no_compile_${name} PROPERTIES LABELS unit
                       PASS_REGULAR_EXPRESSION "error: [^\n]*(${reason})")
endforeach()
