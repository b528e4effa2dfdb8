# Release builds compile what computes nothing (PLAIN in oubli_module: it reads, checks, writes and
# prints) folder by folder as one file each, and with -O1: what the JSON and formatting libraries
# generate is generated once per folder, and nobody waits for it. Development builds compile file by
# file, so that a change costs one file, and everything alike.
#
# PLAIN may be a file in which -O3 fuses no multiplication with an addition: all else that a compiler
# does to numbers here keeps every bit. What computes stays apart, so that which operations are fused
# does not depend on what else is in the folder; but for the folders listed here.
# The price: names in unnamed namespaces must differ within what is compiled as one, and a file that
# lists members for json_fields.h comes before those that ask for them; tests/together.sh looks.
option(OUBLI_TOGETHER "Compile folders as a whole" OFF)
set(OUBLI_TOGETHER_FOLDERS array base data forget model rivals)

# A target of which groups of files, or so many at a time, are compiled as one.
function(oubli_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON ${ARGN})
  # Warnings are for development builds, which see each file alone: in a unit, names of one file
  # shadow another's, and all files but the unit itself are headers to g++, where unnamed namespaces
  # are suspect.
  set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR OFF)
endfunction()

if(OUBLI_TOGETHER)
  target_compile_options(oubli_flags INTERFACE -Wno-shadow
                         $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>
                         # Look for garbage from 768 MB on, not from 256: a tenth of the time.
                         $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=393216>)
  oubli_compile_together(oubli UNITY_BUILD_MODE GROUP)
  # A target of its own, for headers that are precompiled with -O1, too.
  add_library(oubli_plain OBJECT)
  target_include_directories(oubli_plain PRIVATE ${PROJECT_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(oubli_plain PRIVATE oubli_flags oubli_dependencies)
  target_compile_options(oubli_plain PRIVATE -O1)
  oubli_precompile(oubli_plain ${OUBLI_PRECOMPILED_JSON})
  oubli_compile_together(oubli_plain UNITY_BUILD_MODE GROUP)
  target_sources(oubli PRIVATE $<TARGET_OBJECTS:oubli_plain>)
endif()

# Adds files to the library: those that compute, and those that do not.
function(oubli_add_sources)
  cmake_parse_arguments(PARSE_ARGV 0 add "" "" "SOURCES;PLAIN")
  if(NOT OUBLI_TOGETHER)
    target_sources(oubli PRIVATE ${add_SOURCES} ${add_PLAIN})
    return()
  endif()
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/oubli ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" group ${folder})
  target_sources(oubli PRIVATE ${add_SOURCES})
  target_sources(oubli_plain PRIVATE ${add_PLAIN})
  if(folder IN_LIST OUBLI_TOGETHER_FOLDERS)
    set_source_files_properties(${add_SOURCES} TARGET_DIRECTORY oubli PROPERTIES UNITY_GROUP ${group})
  endif()
  set_source_files_properties(${add_PLAIN} TARGET_DIRECTORY oubli PROPERTIES UNITY_GROUP ${group})
endfunction()
