# Makes one page of viewer/ and C++ of the page:
#
#   cmake -D VIEWER=viewer -D PAGE=page.html -D SOURCE=page_bytes.cpp -P make_page.cmake
#
# The scripts and the style that index.html names are put in their places. Nothing else changes.
file(READ ${VIEWER}/index.html page)

# Square brackets would make cmake see one element of a list where there are several.
string(REGEX MATCHALL "<script src=\"[a-z_]+\\.js\"></script>" tags "${page}")
foreach(tag IN LISTS tags)
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" name "${tag}")
  file(READ ${VIEWER}/${name} script)
  string(REPLACE "${tag}" "<script>\n${script}</script>" page "${page}")
endforeach()
file(READ ${VIEWER}/style.css style)
string(REPLACE "<link rel=\"stylesheet\" href=\"style.css\">" "<style>\n${style}</style>" page "${page}")
file(WRITE ${PAGE} "${page}")

file(READ ${PAGE} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${SOURCE} "extern const unsigned char magpie_page_bytes[];
extern const unsigned long magpie_page_size;
const unsigned char magpie_page_bytes[] = {
${bytes}};
const unsigned long magpie_page_size = ${size};
")
