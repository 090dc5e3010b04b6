// The one-file report: the same views as the pages of the server, with its data in the page.

import { render } from "preact";
import type { Document } from "../data/document";
import { DocumentView } from "../views/document";
import { followTheme } from "../views/theme";
import "../views/style.css";

followTheme();
const data = document.getElementById("document")?.textContent;
const root = document.getElementById("report");
if (root && data) render(<DocumentView document={JSON.parse(data) as Document} />, root);
